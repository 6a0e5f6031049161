//! The API document (OpenAPI 3.1), generated from the routes; what every route shares is added here.

use utoipa::ToSchema;
use utoipa::openapi::content::ContentBuilder;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::path::Operation;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{InfoBuilder, OpenApi, OpenApiBuilder, PathItem, Ref, RefOr, ResponseBuilder};

use super::problem::PROBLEM_JSON;
use super::router;
use crate::wire::cost::{GranularityWord, GroupOfAllWord, GroupWord};
use crate::wire::lease::LeaseStateWord;
use crate::wire::problem::Problem;
use crate::wire::sample::NewSample;
use crate::wire::schema::{HourText, Id};

const SECURITY: &str = "token";
const ABOUT: &str = "Usage metering, spending limits and billing for a microVM sandbox cloud. Money is in whole \
    microdollars ($1 is 1,000,000), quantities in `usage` are decimal strings, time is UTC. Whole numbers are written \
    without fraction or exponent. Unknown fields and query parameters are refused.";

/// The document's beginning.
pub(super) fn head() -> OpenApi {
    let info = InfoBuilder::new().title("runtab").version(env!("CARGO_PKG_VERSION")).description(Some(ABOUT));
    OpenApiBuilder::new().info(info).build()
}

/// The whole document as JSON.
#[must_use]
pub fn openapi_json() -> String {
    let (mut document, probes) = (router::api().split_for_parts().1, router::probes().split_for_parts().1);
    for item in document.paths.paths.values_mut() {
        operations(item, share);
    }
    document.merge(probes);
    let components = document.components.get_or_insert_default();
    let mut schemas = vec![
        named::<Problem>(),
        named::<NewSample>(),
        named::<Id>(),
        named::<HourText>(),
        named::<GranularityWord>(),
        named::<GroupWord>(),
        named::<GroupOfAllWord>(),
        named::<LeaseStateWord>(),
    ];
    Problem::schemas(&mut schemas);
    NewSample::schemas(&mut schemas);
    components.schemas.extend(schemas);
    let scheme = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
    components.security_schemes.insert(SECURITY.to_owned(), RefOr::T(scheme));
    document.to_pretty_json().unwrap_or_default()
}

fn named<T: ToSchema>() -> (String, RefOr<Schema>) {
    (T::name().into_owned(), T::schema())
}

/// Every operation of a path, and whether it changes something.
fn operations(item: &mut PathItem, mut each: impl FnMut(&mut Operation, bool)) {
    let reads = [&mut item.get];
    reads.into_iter().flatten().for_each(|operation| each(operation, false));
    let writes = [&mut item.post, &mut item.put, &mut item.patch, &mut item.delete];
    writes.into_iter().flatten().for_each(|operation| each(operation, true));
}

/// Adds the token and the failures that any route of the API may answer.
fn share(operation: &mut Operation, writes: bool) {
    let mut failures = vec![
        ("401", "There is no valid token."),
        ("403", "The role of the token, or the account's or key's state, does not allow it."),
        ("404", "There is no such thing, or it is another account's."),
        ("405", "The route has other methods."),
        ("422", "A field, an id or a query parameter can't be taken; `pointer` names it."),
        ("500", "A fault of ours."),
        ("503", "Not available now; try again."),
    ];
    if writes {
        failures.push(("409", "It contradicts what is there."));
    }
    if operation.request_body.is_some() {
        failures.push(("400", "The body is not JSON."));
        failures.push(("413", "The body is too large."));
        failures.push(("415", "The body is of another type or encoding."));
    }
    for (status, about) in failures {
        operation.responses.responses.entry(status.to_owned()).or_insert_with(|| RefOr::T(failure(status, about)));
    }
    operation.security = Some(vec![SecurityRequirement::new(SECURITY, std::iter::empty::<String>())]);
}

fn failure(status: &str, about: &str) -> utoipa::openapi::Response {
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name(Problem::name()))).build();
    let response = ResponseBuilder::new().description(about).content(PROBLEM_JSON, content);
    let header = |kind, about: &str| {
        let schema = ObjectBuilder::new().schema_type(kind).build();
        HeaderBuilder::new().schema(Some(schema)).description(Some(about)).build()
    };
    match status {
        "401" => response.header("WWW-Authenticate", header(Type::String, "Always `Bearer`.")),
        "405" => response.header("Allow", header(Type::String, "The methods of the route.")),
        "503" => response.header("Retry-After", header(Type::Integer, "Seconds to wait.")),
        _ => response,
    }
    .build()
}
