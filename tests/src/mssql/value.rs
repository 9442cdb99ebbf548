//! Values and column types as the kit's server speaks them, between SQLite and the wire.

/// One SQL value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SqlValue {
    Null,
    Int(i64),
    Float(f64),
    Text(String),
    Bytes(Vec<u8>),
}

/// The wire type of a column or parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SqlType {
    Bit,
    TinyInt,
    SmallInt,
    Int,
    BigInt,
    Real,
    Float,
    Numeric { scale: u8 },
    NVarChar,
    VarBinary,
    DateTime2,
    Variant,
}

/// A result column: its name and wire type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) ty: SqlType,
}

impl SqlType {
    /// The type a T-SQL type name stands for, `NVarChar` for every name that is text here.
    pub(crate) fn from_name(name: &str, scale: Option<u8>) -> Self {
        match name.to_ascii_lowercase().as_str() {
            "bit" => Self::Bit,
            "tinyint" => Self::TinyInt,
            "smallint" => Self::SmallInt,
            "int" | "integer" => Self::Int,
            "bigint" | "rowversion" => Self::BigInt,
            "real" => Self::Real,
            "float" => Self::Float,
            "numeric" | "decimal" | "dec" => Self::Numeric { scale: scale.unwrap_or(0) },
            "money" | "smallmoney" => Self::Numeric { scale: 4 },
            "datetime2" | "datetime" | "smalldatetime" => Self::DateTime2,
            "binary" | "varbinary" | "image" => Self::VarBinary,
            "sql_variant" => Self::Variant,
            _ => Self::NVarChar,
        }
    }

    /// Narrows or widens the guessed type so that every value of the column fits it. SQLite types
    /// values, SQL Server types columns: a guess can be wrong, the wire must not be.
    pub(crate) fn fitted<'v>(self, values: impl Iterator<Item = &'v SqlValue>) -> Self {
        values.fold(self, |ty, value| match (ty, value) {
            (_, SqlValue::Null) | (Self::Variant, _) => ty,
            (Self::Bit, SqlValue::Int(0 | 1)) => ty,
            (Self::TinyInt, SqlValue::Int(n)) if u8::try_from(*n).is_ok() => ty,
            (Self::SmallInt, SqlValue::Int(n)) if i16::try_from(*n).is_ok() => ty,
            (Self::Int, SqlValue::Int(n)) if i32::try_from(*n).is_ok() => ty,
            (Self::BigInt | Self::Real | Self::Float | Self::Numeric { .. }, SqlValue::Int(_)) => {
                ty
            }
            (Self::NVarChar, SqlValue::Int(n)) if i32::try_from(*n).is_ok() => Self::Int,
            (_, SqlValue::Int(_)) => Self::BigInt,
            (Self::Real | Self::Numeric { .. }, SqlValue::Float(_)) => ty,
            (_, SqlValue::Float(_)) => Self::Float,
            (Self::DateTime2, SqlValue::Text(text)) if super::datetime::parse(text).is_some() => ty,
            (_, SqlValue::Text(_)) => Self::NVarChar,
            (_, SqlValue::Bytes(_)) => Self::VarBinary,
        })
    }

    /// The type of an expression over operands of both types: the higher one wins.
    pub(crate) fn combined(self, other: Self) -> Self {
        if self.rank() >= other.rank() { self } else { other }
    }

    fn rank(self) -> u8 {
        match self {
            Self::VarBinary => 0,
            Self::NVarChar => 1,
            Self::Bit => 2,
            Self::TinyInt => 3,
            Self::SmallInt => 4,
            Self::Int => 5,
            Self::BigInt => 6,
            Self::Numeric { .. } => 7,
            Self::Real => 8,
            Self::Float => 9,
            Self::DateTime2 => 10,
            Self::Variant => 11,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_widens_to_hold_its_values() {
        let fit = |ty: SqlType, value: SqlValue| ty.fitted([value].iter());
        assert_eq!(fit(SqlType::Int, SqlValue::Int(1)), SqlType::Int);
        assert_eq!(fit(SqlType::Int, SqlValue::Int(1 << 40)), SqlType::BigInt);
        assert_eq!(fit(SqlType::Bit, SqlValue::Int(2)), SqlType::BigInt);
        assert_eq!(fit(SqlType::Int, SqlValue::Text("x".into())), SqlType::NVarChar);
        assert_eq!(fit(SqlType::Int, SqlValue::Float(0.5)), SqlType::Float);
        assert_eq!(fit(SqlType::DateTime2, SqlValue::Text("no date".into())), SqlType::NVarChar);
        assert_eq!(fit(SqlType::BigInt, SqlValue::Null), SqlType::BigInt);
    }
}
