//! What tests stand on: an engine process, a client, times, and the databases that engines run on.

mod api;
mod backend;
mod dump;
mod engine;
mod json;
mod proxy;
mod time;

pub(crate) use api::{Answer, Api, Raw, at_once};
pub(crate) use backend::{Backend, Database, on_each_backend};
pub(crate) use dump::{dump, dump_tables, run_sql};
pub(crate) use engine::{Engine, Process, create_token};
pub(crate) use json::{at_rest, done, int, invalid, lease, made, quantity, refused, rejections, sample, shape, with};
pub(crate) use proxy::{Mode, Proxy};
pub(crate) use time::{HOUR_S, Time, time};
