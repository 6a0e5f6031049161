//! Rate cards: prices, and from when on they hold for whom.

use serde::Serialize;
use utoipa::ToSchema;
use utoipa::openapi::schema::{Object, ObjectBuilder, Type};

use super::reader::{Invalid, Value};
use super::schema::{DayText, Id, MillicoresCount, PriceCount, TimeText};
use super::time::{show_day, show_time};
use crate::domain;
use crate::domain::id::{AccountId, RateCardId};
use crate::domain::money::{PRICE_MICROS_MAX, PriceMicros};
use crate::domain::time::Day;
use crate::domain::units::{FLOOR_MILLICORES_MAX, Millicores};
use crate::ledger::command::{AddRateCard, ReturnToDefault};
use crate::ledger::view::CardsInForce;

/// A rate card to add.
#[derive(Debug, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewRateCard {
    /// Chosen by the caller; the same request again gives the same answer.
    #[schema(value_type = Id)]
    pub id: RateCardId,
    /// Its first day; at least an hour ahead.
    #[schema(value_type = DayText)]
    pub effective_on: Day,
    /// Per vCPU-hour.
    #[schema(value_type = PriceCount)]
    pub cpu_micros_per_vcpu_hour: PriceMicros,
    /// Per GiB-hour of memory.
    #[schema(value_type = PriceCount)]
    pub memory_micros_per_gib_hour: PriceMicros,
    /// Per GiB-hour of storage.
    #[schema(value_type = PriceCount)]
    pub storage_micros_per_gib_hour: PriceMicros,
    /// What a running sandbox's CPU counts at least.
    #[schema(value_type = MillicoresCount)]
    pub cpu_floor_millicores: Millicores,
    /// Whose card it is; absent or null: the default for all.
    #[schema(value_type = Option<Id>)]
    pub account: Option<AccountId>,
}

impl NewRateCard {
    /// Reads the request.
    pub fn read(body: &Value<'_, '_>) -> Result<AddRateCard, Invalid> {
        let object = body.object([
            "id",
            "effective_on",
            "cpu_micros_per_vcpu_hour",
            "memory_micros_per_gib_hour",
            "storage_micros_per_gib_hour",
            "cpu_floor_millicores",
            "account",
        ])?;
        let price = |name| {
            let micros = object.required(name)?.integer(0, PRICE_MICROS_MAX)?;
            PriceMicros::new(micros).ok_or_else(|| object.invalid(name, "is out of range"))
        };
        let floor = object.required("cpu_floor_millicores")?.integer(0, FLOOR_MILLICORES_MAX)?;
        let card = domain::rate_card::RateCard {
            id: object.required("id")?.id(RateCardId::parse)?,
            cpu: price("cpu_micros_per_vcpu_hour")?,
            memory: price("memory_micros_per_gib_hour")?,
            storage: price("storage_micros_per_gib_hour")?,
            floor: Millicores::new(floor).ok_or_else(|| object.invalid("cpu_floor_millicores", "is out of range"))?,
        };
        Ok(AddRateCard {
            account: object.optional("account").map(|account| account.id(AccountId::parse)).transpose()?,
            effective_on: object.required("effective_on")?.day()?,
            card,
        })
    }
}

/// Returns an account to the default card.
#[derive(Debug, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BackToDefault {
    /// The first day; at least an hour ahead.
    #[schema(value_type = DayText)]
    pub effective_on: Day,
    /// Always null: a card of the account is added at `/v1/rate-cards`.
    #[schema(schema_with = null_schema, required = false)]
    pub card: (),
}

fn null_schema() -> Object {
    ObjectBuilder::new().schema_type(Type::Null).build()
}

impl BackToDefault {
    /// Reads the request.
    pub fn read(account: AccountId, body: &Value<'_, '_>) -> Result<ReturnToDefault, Invalid> {
        let object = body.object(["effective_on", "card"])?;
        if object.optional("card").is_some() {
            return Err(object.invalid("card", "must be null; add an account's own card at /v1/rate-cards"));
        }
        Ok(ReturnToDefault { account, effective_on: object.required("effective_on")?.day()? })
    }
}

/// Prices and the CPU floor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct RateCard {
    /// Its id.
    #[schema(value_type = Id)]
    pub id: String,
    /// Per vCPU-hour.
    #[schema(value_type = PriceCount)]
    pub cpu_micros_per_vcpu_hour: i64,
    /// Per GiB-hour of memory.
    #[schema(value_type = PriceCount)]
    pub memory_micros_per_gib_hour: i64,
    /// Per GiB-hour of storage.
    #[schema(value_type = PriceCount)]
    pub storage_micros_per_gib_hour: i64,
    /// What a running sandbox's CPU counts at least.
    #[schema(value_type = MillicoresCount)]
    pub cpu_floor_millicores: i64,
}

impl From<&domain::rate_card::RateCard> for RateCard {
    fn from(card: &domain::rate_card::RateCard) -> Self {
        Self {
            id: card.id.to_string(),
            cpu_micros_per_vcpu_hour: card.cpu.micros_per_hour(),
            memory_micros_per_gib_hour: card.memory.micros_per_hour(),
            storage_micros_per_gib_hour: card.storage.micros_per_hour(),
            cpu_floor_millicores: card.floor.count(),
        }
    }
}

/// From a day on, a card holds for all or for one account. The card's members are null where an account returns to
/// the default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct RateCardEntry {
    /// The card's id.
    #[schema(value_type = Option<Id>, required = true)]
    pub id: Option<String>,
    /// The first day.
    #[schema(value_type = DayText)]
    pub effective_on: String,
    /// Per vCPU-hour.
    #[schema(value_type = Option<PriceCount>, required = true)]
    pub cpu_micros_per_vcpu_hour: Option<i64>,
    /// Per GiB-hour of memory.
    #[schema(value_type = Option<PriceCount>, required = true)]
    pub memory_micros_per_gib_hour: Option<i64>,
    /// Per GiB-hour of storage.
    #[schema(value_type = Option<PriceCount>, required = true)]
    pub storage_micros_per_gib_hour: Option<i64>,
    /// What a running sandbox's CPU counts at least.
    #[schema(value_type = Option<MillicoresCount>, required = true)]
    pub cpu_floor_millicores: Option<i64>,
    /// Whose card it is; null: the default for all.
    #[schema(value_type = Option<Id>, required = true)]
    pub account: Option<String>,
    /// When it was added.
    #[schema(value_type = TimeText)]
    pub created_at: String,
}

impl From<&domain::rate_card::RateCardEntry> for RateCardEntry {
    fn from(entry: &domain::rate_card::RateCardEntry) -> Self {
        let card = entry.card.as_ref();
        Self {
            id: card.map(|card| card.id.to_string()),
            effective_on: show_day(entry.effective_on),
            cpu_micros_per_vcpu_hour: card.map(|card| card.cpu.micros_per_hour()),
            memory_micros_per_gib_hour: card.map(|card| card.memory.micros_per_hour()),
            storage_micros_per_gib_hour: card.map(|card| card.storage.micros_per_hour()),
            cpu_floor_millicores: card.map(|card| card.floor.count()),
            account: entry.account.as_ref().map(AccountId::to_string),
            created_at: show_time(entry.created_at),
        }
    }
}

/// The card in force for an account, and what comes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct RateCardInForce {
    /// Today's card.
    pub card: RateCard,
    /// What takes effect after today, ascending: the account's own entries and the default's.
    pub coming: Vec<RateCardEntry>,
}

impl From<&CardsInForce> for RateCardInForce {
    fn from(cards: &CardsInForce) -> Self {
        Self { card: RateCard::from(&cards.card), coming: cards.coming.iter().map(RateCardEntry::from).collect() }
    }
}
