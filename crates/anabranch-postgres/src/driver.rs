//! A session of the driver, for statements that are none of a log's.

use crate::connection::Server;
use anabranch_core::StoreError;
use anabranch_store::Durability;
use tokio_postgres::Client;

/// Opens a session of the driver by the URL of a log. It goes to the same server, is encrypted as the log's are, and
/// verifies the server as they do: the driver itself reads less of a URL, and verifies nothing. It has the server's
/// settings, is reconnected by nobody, and closes when the client is dropped.
///
/// ```no_run
/// # async fn f() -> Result<(), Box<dyn std::error::Error>> {
/// let url = "postgres://app@db.example.com/shop?sslrootcert=/etc/ssl/shop-ca.pem";
/// let client = anabranch_postgres::driver_session(url).await?;
/// let row = client.query_one("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()", &[]).await?;
/// assert!(row.get::<_, bool>(0));
/// # Ok(()) }
/// ```
pub async fn driver_session(url: &str) -> Result<Client, StoreError> {
    let server = Server::parse(url, Durability::Full, false)?;
    let bare = server.bare(|_| {}).await.map_err(|failure| failure.at(&server.at))?;
    Ok(bare.client)
}
