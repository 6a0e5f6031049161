//! What PostgreSQL has of every row beside its columns, as it sends and takes it: where it lies (a `tid`: the block, then the
//! place in it), and the transaction that wrote it (an `xid`).

use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::types::Oid;
use sqlx::postgres::{PgArgumentBuffer, PgHasArrayType, PgTypeInfo};
use sqlx::{Encode, Postgres, Type};

use super::super::rows::{RowId, Xid};

/// Types that the driver does not name (PostgreSQL's `pg_type.dat`).
const TID: Oid = Oid(27);
const TIDS: Oid = Oid(1010);
/// Four of the block, two of the place.
const TID_BYTES: usize = 6;
const XID: Oid = Oid(28);
const XIDS: Oid = Oid(1011);

impl RowId {
    /// Reads the six bytes of a `tid`.
    pub(super) fn of_tid(tid: &[u8]) -> Option<Self> {
        let mut whole = [0; 8];
        whole.last_chunk_mut::<TID_BYTES>()?.copy_from_slice(tid.first_chunk::<TID_BYTES>()?);
        (tid.len() == TID_BYTES).then(|| Self(i64::from_be_bytes(whole)))
    }

    fn tid(self) -> [u8; TID_BYTES] {
        let [_, _, tid @ ..] = self.0.to_be_bytes();
        tid
    }
}

impl Type<Postgres> for RowId {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(TID)
    }
}

impl PgHasArrayType for RowId {
    fn array_type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(TIDS)
    }
}

impl Encode<'_, Postgres> for RowId {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        buffer.extend_from_slice(&self.tid());
        Ok(IsNull::No)
    }
}

impl Type<Postgres> for Xid {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(XID)
    }
}

impl PgHasArrayType for Xid {
    fn array_type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(XIDS)
    }
}

impl Encode<'_, Postgres> for Xid {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        buffer.extend_from_slice(&self.0.to_be_bytes());
        Ok(IsNull::No)
    }
}

#[cfg(test)]
mod tests {
    use super::RowId;

    #[test]
    fn a_place_comes_back() {
        let tid = [255, 1, 2, 3, 4, 250];
        assert_eq!(RowId::of_tid(&tid).unwrap().tid(), tid);
        assert_eq!(RowId::of_tid(&tid[1..]), None);
    }
}
