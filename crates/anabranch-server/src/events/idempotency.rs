//! The header `idempotency-key`: a request that is sent again does nothing twice.

use crate::problem::Problem;
use axum::http::HeaderMap;
use uuid::Uuid;

const HEADER: &str = "idempotency-key";
/// How long a key may be.
const MOST: usize = 255;
/// The namespace of ids that are derived from keys: drawn once, and never changed.
const NAMESPACE: Uuid = Uuid::from_u128(0x6d1f_0a5e_93c4_4b7b_a2d8_55c1_7e0b_4f36);

/// The key of a request, from which ids are derived.
#[derive(Clone, Debug)]
pub(crate) struct IdempotencyKey(Uuid);

impl IdempotencyKey {
    /// What the headers hold.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Option<Self>, Problem> {
        let mut given = headers.get_all(HEADER).iter();
        let Some(key) = given.next() else { return Ok(None) };
        let is_visible = |byte: &u8| (b'!'..=b'~').contains(byte);
        let key = key.as_bytes();
        if given.next().is_some()
            || key.is_empty()
            || key.len() > MOST
            || !key.iter().all(is_visible)
        {
            let said = format!(
                "the header `{HEADER}` is given once, with 1 to {MOST} visible characters of ASCII: a UUID, say"
            );
            return Err(Problem::invalid(said));
        }
        Ok(Some(Self(Uuid::new_v5(&NAMESPACE, key))))
    }

    /// The id of the n-th event that the request stores.
    pub(crate) fn id(&self, number: u64) -> Uuid {
        Uuid::new_v5(&self.0, &number.to_be_bytes())
    }

    /// The id of the one thing that it makes there.
    pub(crate) fn id_at(&self, place: &str) -> Uuid {
        Uuid::new_v5(&self.0, place.as_bytes())
    }
}
