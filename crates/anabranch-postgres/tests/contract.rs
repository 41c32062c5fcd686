//! The contract suite, against a real server.

mod server;

anabranch_store::contract!(server::harness());
