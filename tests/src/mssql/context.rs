//! What the functions and system views of one session answer.

use super::lexer::Token;
use super::program::Isolation;
use super::sql_error::SqlError;
use super::value::SqlType;

/// The numbers of `mirroring_role`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MirroringRole {
    Principal = 1,
    Mirror = 2,
}

/// The row of `sys.database_mirroring`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mirroring {
    pub(crate) role: MirroringRole,
    pub(crate) synchronized: bool,
    pub(crate) partner: String,
}

/// A view of the session and its server while one statement runs.
#[derive(Debug)]
pub(crate) struct Context<'s> {
    pub(crate) server_name: &'s str,
    pub(crate) database: &'s str,
    pub(crate) databases: &'s [String],
    pub(crate) user: &'s str,
    pub(crate) app_name: &'s str,
    pub(crate) host_name: &'s str,
    pub(crate) spid: u16,
    pub(crate) transactions: u32,
    pub(crate) isolation: Isolation,
    pub(crate) identity: Option<i64>,
    pub(crate) row_count: u64,
    pub(crate) last_error: u32,
    /// `None` while the database cannot be opened.
    pub(crate) read_only: Option<bool>,
    /// `None` outside an availability group.
    pub(crate) primary: Option<bool>,
    pub(crate) mirroring: Option<Mirroring>,
}

/// The id of the first database of a server; lower ones are system databases.
const FIRST_DATABASE_ID: i64 = 5;

impl Context<'_> {
    /// The value of an `@@NAME`.
    pub(crate) fn global(&self, name: &str) -> Result<Token, SqlError> {
        Ok(match name.to_ascii_uppercase().as_str() {
            "@@TRANCOUNT" => Token::number(i64::from(self.transactions), SqlType::Int),
            "@@SERVERNAME" => Token::literal(self.server_name, SqlType::NVarChar),
            "@@SERVICENAME" => Token::literal("MSSQLSERVER", SqlType::NVarChar),
            "@@VERSION" => {
                Token::literal("Microsoft SQL Server 2022 (test kit)", SqlType::NVarChar)
            }
            "@@SPID" => Token::number(i64::from(self.spid), SqlType::SmallInt),
            "@@ROWCOUNT" => {
                Token::number(i64::try_from(self.row_count).unwrap_or(i64::MAX), SqlType::Int)
            }
            "@@ERROR" => Token::number(i64::from(self.last_error), SqlType::Int),
            "@@IDENTITY" => self.identity(),
            "@@LOCK_TIMEOUT" => Token::number(-1, SqlType::Int),
            "@@LANGUAGE" => Token::literal("us_english", SqlType::NVarChar),
            _ => {
                return Err(SqlError::new(137, 15)
                    .message(format!("Must declare the scalar variable \"{name}\".")));
            }
        })
    }

    /// The value of a function of the session, `None` if `name` (in capitals) is no such function.
    pub(crate) fn function(&self, name: &str, arguments: &[Token]) -> Option<Token> {
        let argument = |index: usize| arguments.iter().filter_map(Token::string).nth(index);
        Some(match name {
            "DB_NAME" if arguments.is_empty() => Token::literal(self.database, SqlType::NVarChar),
            "DB_ID" if arguments.is_empty() => {
                Token::number(self.database_id(self.database)?, SqlType::Int)
            }
            "DB_ID" => match self.database_id(&argument(0).unwrap_or_default()) {
                Some(id) => Token::number(id, SqlType::Int),
                None => Token::null(SqlType::Int),
            },
            "SCOPE_IDENTITY" => self.identity(),
            "XACT_STATE" => Token::number(i64::from(self.transactions > 0), SqlType::SmallInt),
            "ROWCOUNT_BIG" => {
                Token::number(i64::try_from(self.row_count).unwrap_or(i64::MAX), SqlType::BigInt)
            }
            "APP_NAME" => Token::literal(self.app_name, SqlType::NVarChar),
            "HOST_NAME" => Token::literal(self.host_name, SqlType::NVarChar),
            "SUSER_SNAME" | "SUSER_NAME" | "ORIGINAL_LOGIN" | "USER_NAME" => {
                Token::literal(self.user, SqlType::NVarChar)
            }
            "DATABASEPROPERTYEX" => self.database_property(&arguments.last()?.string()?),
            "SERVERPROPERTY" => self.server_property(&argument(0)?),
            "FN_HADR_IS_PRIMARY_REPLICA" => match self.primary {
                Some(primary) => Token::number(i64::from(primary), SqlType::Bit),
                None => Token::null(SqlType::Bit),
            },
            _ => return None,
        })
    }

    pub(crate) fn database_id(&self, name: &str) -> Option<i64> {
        if name.eq_ignore_ascii_case("master") {
            return Some(1);
        }
        let index = self.databases.iter().position(|known| known == name)?;
        Some(FIRST_DATABASE_ID + i64::try_from(index).ok()?)
    }

    fn identity(&self) -> Token {
        let ty = SqlType::Numeric { scale: 0 };
        self.identity.map_or(Token::null(ty), |identity| Token::number(identity, ty))
    }

    fn database_property(&self, property: &str) -> Token {
        let ty = SqlType::Variant;
        match property.to_ascii_lowercase().as_str() {
            "updateability" => match self.read_only {
                Some(true) => Token::literal("READ_ONLY", ty),
                Some(false) => Token::literal("READ_WRITE", ty),
                None => Token::null(ty),
            },
            "status" => Token::literal("ONLINE", ty),
            "useraccess" => Token::literal("MULTI_USER", ty),
            _ => Token::null(ty),
        }
    }

    fn server_property(&self, property: &str) -> Token {
        let ty = SqlType::Variant;
        match property.to_ascii_lowercase().as_str() {
            "servername" => Token::literal(self.server_name, ty),
            "productversion" => Token::literal("16.0.4000.0", ty),
            "ishadrenabled" => Token::number(i64::from(self.primary.is_some()), ty),
            _ => Token::null(ty),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A session in one transaction on the primary of a group.
    pub(crate) fn context() -> Context<'static> {
        static DATABASES: std::sync::LazyLock<Vec<String>> =
            std::sync::LazyLock::new(|| vec!["app".to_owned()]);
        Context {
            server_name: "SQL-A",
            database: "app",
            databases: &DATABASES,
            user: "kit",
            app_name: "tests",
            host_name: "here",
            spid: 51,
            transactions: 1,
            isolation: Isolation::ReadCommitted,
            identity: None,
            row_count: 0,
            last_error: 0,
            read_only: Some(false),
            primary: Some(true),
            mirroring: None,
        }
    }

    #[test]
    fn types_are_those_of_the_real_server() {
        let context = context();
        let ty = |token: Option<Token>| token.and_then(|token| token.ty);
        assert_eq!(ty(context.global("@@TranCount").ok()), Some(SqlType::Int));
        assert_eq!(ty(context.global("@@SPID").ok()), Some(SqlType::SmallInt));
        assert_eq!(ty(context.function("XACT_STATE", &[])), Some(SqlType::SmallInt));
        assert_eq!(
            ty(context.function("SCOPE_IDENTITY", &[])),
            Some(SqlType::Numeric { scale: 0 })
        );
        assert_eq!(ty(context.function("FN_HADR_IS_PRIMARY_REPLICA", &[])), Some(SqlType::Bit));
        assert!(context.global("@@NOTHING").is_err());
    }
}
