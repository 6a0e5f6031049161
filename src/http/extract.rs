//! Extractors: bodies, paths and queries, read strictly. What they refuse is a problem that names the field.

use axum::BoxError;
use axum::body::{Body, HttpBody as _};
use axum::extract::{FromRequest, FromRequestParts, Query as PairQuery, RawPathParams, Request};
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Uri};
use bytes::Bytes;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use utoipa::IntoParams;

use super::Shared;
use super::problem::Failure;
use crate::domain::id::{AccountId, BadId, KeyId, LeaseId, RateCardId, SandboxId, TokenId};
use crate::domain::time::{Month, Timestamp};
use crate::ledger::command::Page;
use crate::secret::hex;
use crate::wire::problem::Code;
use crate::wire::reader::{Invalid, Value, document, one_of};
use crate::wire::schema::{Id, NAME_CHARS_MAX};
use crate::wire::time::{TIME_RULE, parse_month, parse_time};

/// Fewest items of a page.
const PAGE_LIMIT_MIN: i64 = 1;
/// Most items of a page.
const PAGE_LIMIT_MAX: i64 = 1_000;
/// Items of a page when nothing is asked.
const PAGE_LIMIT_DEFAULT: i64 = 100;

/// A body of JSON, of bounded size.
pub(super) struct JsonBody(Bytes);

impl FromRequest<Shared> for JsonBody {
    type Rejection = Failure;

    fn from_request(request: Request, state: &Shared) -> impl Future<Output = Result<Self, Failure>> + Send {
        let fits = plain_json(request.headers());
        let body = read_body(request, state.settings.body_bytes_max);
        async move {
            fits?;
            body.await.map(Self)
        }
    }
}

impl JsonBody {
    /// Reads the body by the reader of its shape, and lets go of it: nothing that is asked for waits with it.
    pub(super) fn read<T>(self, read: impl FnOnce(&Value<'_, '_>) -> Result<T, Invalid>) -> Result<T, Failure> {
        Ok(read(&document(&self.0)?)?)
    }
}

/// No body, or an empty JSON object: for commands whose path says everything.
pub(super) struct NoBody;

impl FromRequest<Shared> for NoBody {
    type Rejection = Failure;

    async fn from_request(request: Request, state: &Shared) -> Result<Self, Failure> {
        let is_json = is_of(request.headers(), "application/json");
        let bytes = read_body(request, state.settings.body_bytes_max).await?;
        if bytes.is_empty() {
            return Ok(Self);
        }
        if !is_json {
            return Err(Failure::new(Code::UnsupportedMediaType, "send no body, or Content-Type: application/json"));
        }
        document(&bytes)?.object([])?;
        Ok(Self)
    }
}

/// Whether the body is of a media type, whatever its parameters; case says nothing (RFC 9110 section 8.3.1).
pub(super) fn is_of(headers: &HeaderMap, media_type: &str) -> bool {
    let Some(text) = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()) else { return false };
    let essence = text.split_once(';').map_or(text, |(essence, _)| essence);
    essence.trim_ascii().eq_ignore_ascii_case(media_type)
}

/// Whether a body is of JSON and not compressed.
fn plain_json(headers: &HeaderMap) -> Result<(), Failure> {
    let is_identity = |encoding: &HeaderValue| encoding.as_bytes().eq_ignore_ascii_case(b"identity");
    if !is_of(headers, "application/json") {
        return Err(Failure::new(Code::UnsupportedMediaType, "send Content-Type: application/json"));
    }
    if !headers.get(CONTENT_ENCODING).is_none_or(is_identity) {
        return Err(Failure::new(Code::UnsupportedMediaType, "only bodies of samples may be compressed"));
    }
    Ok(())
}

/// The whole body; 413 beyond `bytes_max`. The rest of the request is dropped at once, so that nothing waits with it.
pub(super) fn read_body(
    request: Request,
    bytes_max: usize,
) -> impl Future<Output = Result<Bytes, Failure>> + Send + use<> {
    let told = request.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    let body = request.into_body();
    async move {
        if told.is_some_and(|told| told > bytes_max) {
            return Err(too_large());
        }
        gathered(Limited::new(body, bytes_max)).await.map_err(|error| {
            if error.is::<LengthLimitError>() {
                return too_large();
            }
            Failure::new(Code::NotJson, "the body broke off or can't be decompressed")
        })
    }
}

fn too_large() -> Failure {
    Failure::new(Code::PayloadTooLarge, "send fewer or smaller items in one request")
}

/// All pieces of a body. Most come in one: that is passed on as it is.
async fn gathered(mut body: Limited<Body>) -> Result<Bytes, BoxError> {
    let mut pieces = Vec::new();
    while let Some(frame) = body.frame().await {
        // Trailers say nothing here.
        let Ok(piece) = frame?.into_data() else { continue };
        if pieces.is_empty() && body.is_end_stream() {
            return Ok(piece);
        }
        pieces.extend_from_slice(&piece);
    }
    Ok(pieces.into())
}

macro_rules! paths {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ident,)* })*) => {$(
        $(#[$doc])*
        #[derive(IntoParams)]
        #[into_params(parameter_in = Path)]
        pub(super) struct $name {
            $($(#[$field_doc])* #[param(value_type = Id)] pub(super) $field: $type,)*
        }

        impl FromRequestParts<Shared> for $name {
            type Rejection = Failure;

            async fn from_request_parts(parts: &mut Parts, state: &Shared) -> Result<Self, Failure> {
                let path = RawPathParams::from_request_parts(parts, state).await.map_err(|_| Failure::not_found())?;
                let text = |name| path.iter().find(|(known, _)| *known == name).map(|(_, text)| text);
                // What can't be an id is the id of nothing.
                Ok(Self {
                    $($field: text(stringify!($field))
                        .and_then(|text| $type::parse(text).ok())
                        .ok_or_else(Failure::not_found)?,)*
                })
            }
        }
    )*};
}

paths! {
    /// An account.
    AccountPath {
        /// The account.
        account: AccountId,
    }
    /// A key.
    KeyPath {
        /// The account.
        account: AccountId,
        /// The key.
        key: KeyId,
    }
    /// A lease.
    LeasePath {
        /// The account.
        account: AccountId,
        /// The lease.
        lease: LeaseId,
    }
    /// A sandbox.
    SandboxPath {
        /// The account.
        account: AccountId,
        /// The sandbox.
        sandbox: SandboxId,
    }
    /// A rate card.
    RateCardPath {
        /// The rate card.
        id: RateCardId,
    }
    /// A token.
    TokenPath {
        /// The token.
        id: TokenId,
    }
}

/// A month.
pub(super) struct MonthPath {
    /// The month.
    pub(super) month: Month,
}

impl FromRequestParts<Shared> for MonthPath {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &Shared) -> Result<Self, Failure> {
        let path = RawPathParams::from_request_parts(parts, state).await.map_err(|_| Failure::not_found())?;
        let text = path.iter().find(|(known, _)| *known == "month").map(|(_, text)| text);
        Ok(Self { month: text.and_then(parse_month).ok_or_else(Failure::not_found)? })
    }
}

/// Stands in routes without query parameters: any is refused.
pub(super) struct NoQuery;

impl FromRequestParts<Shared> for NoQuery {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &Shared) -> Result<Self, Failure> {
        Query::of(&parts.uri, &[]).map(|_| Self).map_err(Failure::from)
    }
}

fn bad<T>(name: &str, detail: impl Into<String>) -> Result<T, Invalid> {
    Err(Invalid { pointer: format!("?{name}"), detail: detail.into() })
}

/// Query parameters that are all known, each at most once.
#[derive(Debug)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    /// Reads the query of a request.
    pub(super) fn of(uri: &Uri, known: &[&str]) -> Result<Self, Invalid> {
        if uri.query().is_none_or(str::is_empty) {
            return Ok(Self(Vec::new()));
        }
        let Ok(PairQuery(pairs)) = PairQuery::<Vec<(String, String)>>::try_from_uri(uri) else {
            return bad("", "must be a query of name=value pairs");
        };
        let mut seen: Vec<&str> = Vec::new();
        for (name, _) in &pairs {
            if !known.contains(&name.as_str()) {
                return bad(name, "is not a parameter of this route");
            }
            if seen.contains(&name.as_str()) {
                return bad(name, "is there twice");
            }
            seen.push(name);
        }
        Ok(Self(pairs))
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, text)| text.as_str())
    }

    /// An id.
    pub(super) fn id<T>(&self, name: &str, parse: impl Fn(&str) -> Result<T, BadId>) -> Result<Option<T>, Invalid> {
        self.text(name).map(parse).transpose().or_else(|error| bad(name, error.to_string()))
    }

    /// One of some words.
    pub(super) fn choice<T: Copy>(&self, name: &str, choices: &[(&str, T)]) -> Result<Option<T>, Invalid> {
        let Some(text) = self.text(name) else { return Ok(None) };
        match choices.iter().find(|(word, _)| *word == text) {
            Some((_, choice)) => Ok(Some(*choice)),
            None => bad(name, one_of(choices)),
        }
    }

    /// A time that must be there.
    pub(super) fn time(&self, name: &str) -> Result<Timestamp, Invalid> {
        match self.text(name).map(parse_time) {
            Some(Some(at)) => Ok(at),
            Some(None) => bad(name, TIME_RULE),
            None => bad(name, "is required"),
        }
    }

    /// Which page of a list is asked for.
    pub(super) fn page(&self, list: &List<'_>) -> Result<Page, Invalid> {
        let limit = match self.text("limit") {
            None => PAGE_LIMIT_DEFAULT,
            Some(text) => whole(text)
                .filter(|limit| (PAGE_LIMIT_MIN..=PAGE_LIMIT_MAX).contains(limit))
                .map_or_else(|| bad("limit", format!("must be from {PAGE_LIMIT_MIN} to {PAGE_LIMIT_MAX}")), Ok)?,
        };
        let after = match self.text("cursor") {
            None => None,
            Some(cursor) => match list.open(cursor) {
                Some(key) => Some(key),
                None => return bad("cursor", "must be a next_cursor of this very list"),
            },
        };
        Ok(Page { after, limit })
    }
}

fn whole(digits: &str) -> Option<i64> {
    digits.bytes().all(|digit| digit.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
}

/// A list whose cursors are told from those of other lists and accounts.
pub(super) struct List<'a> {
    /// Its name.
    pub(super) name: &'static str,
    /// Whose it is.
    pub(super) account: Option<&'a AccountId>,
}

/// Hexadecimal characters of a cursor's tag.
const TAG_CHARS: usize = 16;

impl List<'_> {
    fn tag(&self, key: &str) -> String {
        use sha2::{Digest as _, Sha256};
        let account = self.account.map_or("", AccountId::as_str);
        let digest: [u8; 32] = Sha256::digest(format!("{}\n{account}\n{key}", self.name)).into();
        digest.first_chunk::<8>().map(|head| hex(head)).unwrap_or_default()
    }

    /// The cursor that begins after a key.
    pub(super) fn seal(&self, key: &str) -> String {
        self.tag(key) + &hex(key.as_bytes())
    }

    /// The key in a cursor; `None` when it is not one of this list.
    fn open(&self, cursor: &str) -> Option<String> {
        let (tag, digits) = cursor.split_at_checked(TAG_CHARS)?;
        // A key is an id or a few of them.
        if digits.len() > NAME_CHARS_MAX.saturating_mul(4) {
            return None;
        }
        let bytes: Option<Vec<u8>> = digits.as_bytes().chunks(2).map(byte).collect();
        let key = String::from_utf8(bytes?).ok().filter(|key| key.chars().all(|char| char.is_ascii_graphic()))?;
        (self.tag(&key) == tag).then_some(key)
    }
}

fn byte(pair: &[u8]) -> Option<u8> {
    let text = std::str::from_utf8(pair).ok().filter(|text| text.len() == 2 && !text.starts_with('+'))?;
    u8::from_str_radix(text, 16).ok()
}

#[cfg(test)]
mod tests {
    use axum::extract::Request;
    use axum::http::Uri;
    use bytes::Bytes;

    use super::{Failure, List, Query, read_body};
    use crate::domain::id::{AccountId, KeyId};
    use crate::http::outlet::outlet;

    #[tokio::test]
    async fn a_body_in_pieces_is_read_to_its_end_and_within_its_bound() {
        for (pieces, ends, bytes_max, read) in [
            (["one", "two"], true, 6, Ok("onetwo")),
            (["", "two"], true, 6, Ok("two")),
            (["one", "two"], true, 5, Err("payload_too_large")),
            (["one", "two"], false, 6, Err("invalid_request")),
        ] {
            let (out, body) = outlet(3);
            for piece in pieces {
                assert!(out.send(Bytes::from_static(piece.as_bytes())).await);
            }
            if ends {
                assert!(out.end().await);
            } else {
                drop(out);
            }
            let found = read_body(Request::new(body), bytes_max).await;
            let found = found.as_deref().map_err(Failure::code);
            assert_eq!(found, read.map(str::as_bytes), "{pieces:?}");
        }
    }

    fn query(text: &str, known: &[&str]) -> Result<Query, String> {
        let uri: Uri = format!("/x?{text}").parse().unwrap();
        Query::of(&uri, known).map_err(|invalid| invalid.pointer)
    }

    #[test]
    fn unknown_and_repeated_parameters_are_named() {
        assert!(query("", &[]).is_ok());
        assert!(query("limit=1", &["limit"]).is_ok());
        assert_eq!(query("limit=1&tz=UTC", &["limit"]).unwrap_err(), "?tz");
        assert_eq!(query("limit=1&limit=1", &["limit"]).unwrap_err(), "?limit");
        assert_eq!(query("a", &[]).unwrap_err(), "?a");
    }

    #[test]
    fn limits_are_bounded() {
        let list = List { name: "keys", account: None };
        let limit = |text: &str| query(text, &["limit"]).unwrap().page(&list).map(|page| page.limit);
        assert_eq!(limit(""), Ok(100));
        assert_eq!(limit("limit=1000"), Ok(1_000));
        for bad in ["0", "1001", "-1", "+1", "1.0", "", "x", "99999999999999999999"] {
            assert_eq!(limit(&format!("limit={bad}")).unwrap_err().pointer, "?limit", "{bad}");
        }
    }

    #[test]
    fn a_cursor_is_of_one_list_of_one_account() {
        let (ours, theirs) = (AccountId::parse("ours").unwrap(), AccountId::parse("theirs").unwrap());
        let list = List { name: "keys", account: Some(&ours) };
        let cursor = list.seal("ci:1");
        assert_eq!(list.open(&cursor).as_deref(), Some("ci:1"));
        assert_eq!(List { name: "keys", account: Some(&theirs) }.open(&cursor), None);
        assert_eq!(List { name: "leases", account: Some(&ours) }.open(&cursor), None);
        for bad in ["", "0", "zz", &cursor[1..], &format!("{cursor}0"), &format!("{cursor}00"), "ääääääääää"]
        {
            assert_eq!(list.open(bad), None, "{bad}");
        }
    }

    #[test]
    fn ids_and_words_in_queries_are_checked() {
        let query = query("key=a%20b&state=on", &["key", "state"]).unwrap();
        assert_eq!(query.id("key", KeyId::parse).unwrap_err().pointer, "?key");
        assert_eq!(query.choice("state", &[("running", 1)]).unwrap_err().pointer, "?state");
        assert_eq!(query.time("from").unwrap_err().detail, "is required");
    }
}
