//! SET.

use super::{Reply, Session};
use crate::mysql::error::MySqlError;
use crate::mysql::statement::{Assigned, Assignment, Target};
use crate::mysql::variables::{self, Scope};
use crate::mysql::wire::{Done, text_of};
use crate::sql::Value;

impl Session {
    pub(super) fn set_transaction(
        &mut self,
        scope: Scope,
        read_only: Option<bool>,
        isolation: Option<String>,
    ) -> Result<Reply, MySqlError> {
        match scope {
            Scope::Next if self.transaction.is_some() => {
                return Err(MySqlError::new(
                    1568,
                    "Transaction characteristics can't be changed while a transaction is in \
                     progress",
                ));
            }
            Scope::Next => {
                self.next_read_only = read_only.or(self.next_read_only);
                self.next_isolation = isolation.or(self.next_isolation.take());
            }
            Scope::Session => {
                let mut vars = self.context.vars.lock();
                vars.read_only = read_only.unwrap_or(vars.read_only);
                vars.isolation = isolation.unwrap_or_else(|| vars.isolation.clone());
            }
            Scope::Global => {}
        }
        Ok(Reply::Done(Done::default()))
    }

    pub(super) async fn assign(
        &mut self,
        assignment: &Assignment,
        params: &[Value],
    ) -> Result<(), MySqlError> {
        let value = match &assignment.value {
            Assigned::Word(word) => variables::word_value(word),
            Assigned::Expression(expression) => {
                let answer = self.query(&format!("SELECT {expression}"), params.to_vec()).await?;
                answer.rows.into_iter().flatten().next().unwrap_or(Value::Null)
            }
        };
        let (scope, name) = match &assignment.target {
            Target::User(name) => {
                self.context.vars.lock().user_variables.insert(name.clone(), value);
                return Ok(());
            }
            Target::System(scope, name) => (*scope, name.as_str()),
        };
        let on = variables::is_on(&value);
        match (name, scope) {
            ("autocommit", Scope::Session | Scope::Next) => {
                let was_on = std::mem::replace(&mut self.context.vars.lock().autocommit, on);
                if on && !was_on {
                    self.commit().await?;
                }
            }
            ("transaction_read_only" | "tx_read_only", Scope::Session | Scope::Next) => {
                self.context.vars.lock().read_only = on;
            }
            ("transaction_isolation" | "tx_isolation", Scope::Session | Scope::Next) => {
                let isolation = text_of(&value).to_ascii_uppercase();
                self.context.vars.lock().isolation = isolation;
            }
            ("read_only", Scope::Global) => {
                self.context.host().set(|switches| {
                    switches.read_only = on;
                    switches.super_read_only &= on;
                });
            }
            ("super_read_only", Scope::Global) => {
                self.context.host().set(|switches| {
                    switches.super_read_only = on;
                    switches.read_only |= on;
                });
            }
            ("last_insert_id" | "identity", _) => {
                let Value::Integer(id) = value else { return Ok(()) };
                self.context.vars.lock().last_insert_id = id as u64;
            }
            ("read_only" | "super_read_only", _) => {
                let text = format!(
                    "Variable '{name}' is a GLOBAL variable and should be set with SET GLOBAL"
                );
                return Err(MySqlError::new(1229, text));
            }
            (
                "gtid_executed" | "hostname" | "innodb_read_only" | "port" | "server_uuid"
                | "socket" | "version" | "version_comment",
                _,
            ) => {
                let text = format!("Variable '{name}' is a read only variable");
                return Err(MySqlError::new(1238, text));
            }
            (name, _) if !variables::exists(name) => {
                return Err(MySqlError::unknown_variable(name));
            }
            (_, Scope::Global) => {}
            (name, _) => {
                self.context.vars.lock().session.insert(name.to_owned(), value);
            }
        }
        Ok(())
    }
}
