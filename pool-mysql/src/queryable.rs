//! `Queryable` for everything that has a `parts()` method giving the driver's object and the watch.
//!
//! Every method is forwarded, not only the required ones: the provided methods read the result inside, and
//! an error met there must be judged as well.

macro_rules! watched_queryable {
    ($type:ty) => {
        impl mysql_async::prelude::Queryable for $type {
            fn ping(&mut self) -> $crate::queryable::Answer<'_, ()> {
                let (inner, watch) = self.parts();
                watch.run(inner.ping(), true)
            }

            fn query_iter<'a, Q>(
                &'a mut self,
                query: Q,
            ) -> $crate::queryable::Answer<
                'a,
                mysql_async::QueryResult<'a, 'static, mysql_async::TextProtocol>,
            >
            where
                Q: mysql_async::prelude::AsQuery + 'a,
            {
                let (inner, watch) = self.parts();
                watch.announce($crate::sniff::effect(&query.as_query()));
                watch.run(inner.query_iter(query), true)
            }

            fn prep<'a, Q>(
                &'a mut self,
                query: Q,
            ) -> $crate::queryable::Answer<'a, mysql_async::Statement>
            where
                Q: mysql_async::prelude::AsQuery + 'a,
            {
                let (inner, watch) = self.parts();
                watch.run(inner.prep(query), false)
            }

            fn close(
                &mut self,
                statement: mysql_async::Statement,
            ) -> $crate::queryable::Answer<'_, ()> {
                let (inner, watch) = self.parts();
                let settles = !watch.unsure;
                watch.run(inner.close(statement), settles)
            }

            fn exec_iter<'a: 's, 's, Q, P>(
                &'a mut self,
                statement: Q,
                params: P,
            ) -> $crate::queryable::Answer<
                's,
                mysql_async::QueryResult<'a, 'static, mysql_async::BinaryProtocol>,
            >
            where
                Q: mysql_async::prelude::StatementLike + 's,
                P: Into<mysql_async::Params>,
            {
                let (inner, watch) = self.parts();
                watch.run(inner.exec_iter(statement, params), true)
            }

            fn query<'a, T, Q>(&'a mut self, query: Q) -> $crate::queryable::Answer<'a, Vec<T>>
            where
                Q: mysql_async::prelude::AsQuery + 'a,
                T: mysql_async::prelude::FromRow + Send + 'static,
            {
                let (inner, watch) = self.parts();
                watch.announce($crate::sniff::effect(&query.as_query()));
                watch.run(inner.query(query), true)
            }

            fn query_first<'a, T, Q>(
                &'a mut self,
                query: Q,
            ) -> $crate::queryable::Answer<'a, Option<T>>
            where
                Q: mysql_async::prelude::AsQuery + 'a,
                T: mysql_async::prelude::FromRow + Send + 'static,
            {
                let (inner, watch) = self.parts();
                watch.announce($crate::sniff::effect(&query.as_query()));
                watch.run(inner.query_first(query), true)
            }

            fn query_map<'a, T, F, Q, U>(
                &'a mut self,
                query: Q,
                map: F,
            ) -> $crate::queryable::Answer<'a, Vec<U>>
            where
                Q: mysql_async::prelude::AsQuery + 'a,
                T: mysql_async::prelude::FromRow + Send + 'static,
                F: FnMut(T) -> U + Send + 'a,
                U: Send,
            {
                // `U` need not live as long as the connection, so the rows are mapped outside of it.
                let rows = self.query::<T, Q>(query);
                Box::pin(async move { Ok(rows.await?.into_iter().map(map).collect()) })
            }

            fn query_fold<'a, T, F, Q, U>(
                &'a mut self,
                query: Q,
                init: U,
                fold: F,
            ) -> $crate::queryable::Answer<'a, U>
            where
                Q: mysql_async::prelude::AsQuery + 'a,
                T: mysql_async::prelude::FromRow + Send + 'static,
                F: FnMut(U, T) -> U + Send + 'a,
                U: Send + 'a,
            {
                let (inner, watch) = self.parts();
                watch.announce($crate::sniff::effect(&query.as_query()));
                watch.run(inner.query_fold(query, init, fold), true)
            }

            fn query_drop<'a, Q>(&'a mut self, query: Q) -> $crate::queryable::Answer<'a, ()>
            where
                Q: mysql_async::prelude::AsQuery + 'a,
            {
                let (inner, watch) = self.parts();
                watch.announce($crate::sniff::effect(&query.as_query()));
                watch.run(inner.query_drop(query), true)
            }

            fn exec_batch<'a: 'b, 'b, S, P, I>(
                &'a mut self,
                statement: S,
                params: I,
            ) -> $crate::queryable::Answer<'b, ()>
            where
                S: mysql_async::prelude::StatementLike + 'b,
                I: IntoIterator<Item = P> + Send + 'b,
                I::IntoIter: Send,
                P: Into<mysql_async::Params> + Send,
            {
                let params = params.into_iter();
                // Without parameters the statement is prepared and nothing else.
                let settles = params.size_hint().0 > 0;
                let (inner, watch) = self.parts();
                watch.run(inner.exec_batch(statement, params), settles)
            }

            fn exec<'a: 'b, 'b, T, S, P>(
                &'a mut self,
                statement: S,
                params: P,
            ) -> $crate::queryable::Answer<'b, Vec<T>>
            where
                S: mysql_async::prelude::StatementLike + 'b,
                P: Into<mysql_async::Params> + Send + 'b,
                T: mysql_async::prelude::FromRow + Send + 'static,
            {
                let (inner, watch) = self.parts();
                watch.run(inner.exec(statement, params), true)
            }

            fn exec_first<'a: 'b, 'b, T, S, P>(
                &'a mut self,
                statement: S,
                params: P,
            ) -> $crate::queryable::Answer<'b, Option<T>>
            where
                S: mysql_async::prelude::StatementLike + 'b,
                P: Into<mysql_async::Params> + Send + 'b,
                T: mysql_async::prelude::FromRow + Send + 'static,
            {
                let (inner, watch) = self.parts();
                watch.run(inner.exec_first(statement, params), true)
            }

            fn exec_map<'a: 'b, 'b, T, S, P, U, F>(
                &'a mut self,
                statement: S,
                params: P,
                map: F,
            ) -> $crate::queryable::Answer<'b, Vec<U>>
            where
                S: mysql_async::prelude::StatementLike + 'b,
                P: Into<mysql_async::Params> + Send + 'b,
                T: mysql_async::prelude::FromRow + Send + 'static,
                F: FnMut(T) -> U + Send + 'a,
                U: Send + 'a,
            {
                let (inner, watch) = self.parts();
                watch.run(inner.exec_map(statement, params, map), true)
            }

            fn exec_fold<'a: 'b, 'b, T, S, P, U, F>(
                &'a mut self,
                statement: S,
                params: P,
                init: U,
                fold: F,
            ) -> $crate::queryable::Answer<'b, U>
            where
                S: mysql_async::prelude::StatementLike + 'b,
                P: Into<mysql_async::Params> + Send + 'b,
                T: mysql_async::prelude::FromRow + Send + 'static,
                F: FnMut(U, T) -> U + Send + 'a,
                U: Send + 'a,
            {
                let (inner, watch) = self.parts();
                watch.run(inner.exec_fold(statement, params, init, fold), true)
            }

            fn exec_drop<'a: 'b, 'b, S, P>(
                &'a mut self,
                statement: S,
                params: P,
            ) -> $crate::queryable::Answer<'b, ()>
            where
                S: mysql_async::prelude::StatementLike + 'b,
                P: Into<mysql_async::Params> + Send + 'b,
            {
                let (inner, watch) = self.parts();
                watch.run(inner.exec_drop(statement, params), true)
            }

            fn query_stream<'a, T, Q>(
                &'a mut self,
                query: Q,
            ) -> $crate::queryable::Answer<
                'a,
                mysql_async::ResultSetStream<'a, 'a, 'static, T, mysql_async::TextProtocol>,
            >
            where
                T: Unpin + mysql_async::prelude::FromRow + Send + 'static,
                Q: mysql_async::prelude::AsQuery + 'a,
            {
                let (inner, watch) = self.parts();
                watch.announce($crate::sniff::effect(&query.as_query()));
                watch.run(inner.query_stream(query), true)
            }

            fn exec_stream<'a: 's, 's, T, Q, P>(
                &'a mut self,
                statement: Q,
                params: P,
            ) -> $crate::queryable::Answer<
                's,
                mysql_async::ResultSetStream<'a, 'a, 'static, T, mysql_async::BinaryProtocol>,
            >
            where
                T: Unpin + mysql_async::prelude::FromRow + Send + 'static,
                Q: mysql_async::prelude::StatementLike + 's,
                P: Into<mysql_async::Params> + Send + 's,
            {
                let (inner, watch) = self.parts();
                watch.run(inner.exec_stream(statement, params), true)
            }
        }
    };
}

pub(crate) use watched_queryable;

/// What the driver's methods return.
pub(crate) type Answer<'a, T> = futures_util::future::BoxFuture<'a, Result<T, mysql_async::Error>>;
