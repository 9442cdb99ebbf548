//! Parameters that outlive the call, so that a statement can be sent a second time.

use std::borrow::Cow;
use std::sync::Arc;

use tiberius::{ColumnData, ToSql};

/// The parameters of one statement. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Params(Arc<[Param]>);

#[derive(Debug)]
struct Param(ColumnData<'static>);

impl Params {
    pub(crate) fn new(params: &[&dyn ToSql]) -> Self {
        Self(params.iter().map(|param| Param(owned(param.to_sql()))).collect())
    }

    pub(crate) fn as_sql(&self) -> Vec<&dyn ToSql> {
        self.0.iter().map(|param| param as &dyn ToSql).collect()
    }
}

impl ToSql for Param {
    fn to_sql(&self) -> ColumnData<'_> {
        self.0.clone()
    }
}

fn owned(data: ColumnData<'_>) -> ColumnData<'static> {
    match data {
        ColumnData::U8(value) => ColumnData::U8(value),
        ColumnData::I16(value) => ColumnData::I16(value),
        ColumnData::I32(value) => ColumnData::I32(value),
        ColumnData::I64(value) => ColumnData::I64(value),
        ColumnData::F32(value) => ColumnData::F32(value),
        ColumnData::F64(value) => ColumnData::F64(value),
        ColumnData::Bit(value) => ColumnData::Bit(value),
        ColumnData::String(value) => {
            ColumnData::String(value.map(|text| Cow::Owned(text.into_owned())))
        }
        ColumnData::Guid(value) => ColumnData::Guid(value),
        ColumnData::Binary(value) => {
            ColumnData::Binary(value.map(|bytes| Cow::Owned(bytes.into_owned())))
        }
        ColumnData::Numeric(value) => ColumnData::Numeric(value),
        ColumnData::Xml(value) => ColumnData::Xml(value.map(|xml| Cow::Owned(xml.into_owned()))),
        ColumnData::DateTime(value) => ColumnData::DateTime(value),
        ColumnData::SmallDateTime(value) => ColumnData::SmallDateTime(value),
        ColumnData::Time(value) => ColumnData::Time(value),
        ColumnData::Date(value) => ColumnData::Date(value),
        ColumnData::DateTime2(value) => ColumnData::DateTime2(value),
        ColumnData::DateTimeOffset(value) => ColumnData::DateTimeOffset(value),
    }
}
