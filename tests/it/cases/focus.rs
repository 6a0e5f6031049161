//! FOCUS exports: what the official validator can't see. Cost is price times quantity, times are universal, a bill's
//! rows sum to its invoice; CSV and Parquet say the same; and the export of all accounts is the bills one after another.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::harness::{
    Api, Backend, Engine, HOUR_S, at_rest, done, int, lease, made, on_each_backend, refused, sample, time, with,
};

on_each_backend!(
    rows_sum_to_the_invoice,
    late_usage_is_a_correction,
    what_a_void_takes_back_is_below_zero,
    all_accounts_in_one_file
);

type Row = BTreeMap<String, String>;

fn read(text: &str) -> Vec<Row> {
    csv::Reader::from_reader(text.as_bytes()).deserialize().map(|row| row.unwrap()).collect()
}

async fn rows(api: &Api, account: &str, month: &str) -> Vec<Row> {
    let path = format!("/v1/accounts/{account}/invoices/{month}.focus.csv");
    let raw = api.raw("GET", &path, &[], Vec::new()).await;
    assert_eq!((raw.status, raw.content_type.as_str()), (200, "text/csv; charset=utf-8; header=present"));
    assert_eq!(api.unzipped(&path).await, raw.body);
    read(&String::from_utf8(raw.body).unwrap())
}

/// A decimal, in units of 10^-18.
fn decimal(text: &str) -> i128 {
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest));
    let (whole, rest) = digits.split_once('.').unwrap_or((digits, ""));
    assert!(rest.len() <= 18, "{text}");
    sign * format!("{whole}{rest:0<18}").parse::<i128>().unwrap_or_else(|_| panic!("{text:?} is no decimal"))
}

const ONE: i128 = 1_000_000_000_000_000_000;

/// What must hold of the rows of one bill.
fn check(rows: &[Row], invoice: &Value) {
    let mut billed = 0;
    let mut list: BTreeMap<&str, i128> = BTreeMap::new();
    for row in rows {
        let get = |name: &str| row[name].as_str();
        for name in row.keys().filter(|name| name.ends_with("Start") || name.ends_with("End")) {
            assert!(row[name].ends_with(":00:00Z") && row[name].len() == 20, "{name}: {}", row[name]);
        }
        assert!(get("ChargePeriodStart") < get("ChargePeriodEnd"));
        assert!(get("BillingPeriodStart") < get("BillingPeriodEnd"));
        assert_eq!(get("BillingPeriodStart"), format!("{}-01T00:00:00Z", invoice["month"].as_str().unwrap()));
        assert_eq!(get("InvoiceId"), invoice["number"].as_str().unwrap_or(""));
        billed += decimal(get("BilledCost"));
        if get("ChargeCategory") != "Usage" {
            assert_eq!(get("PricingQuantity"), "");
            continue;
        }
        let quantity = decimal(get("PricingQuantity"));
        for (cost, price) in [("ListCost", "ListUnitPrice"), ("ContractedCost", "ContractedUnitPrice")] {
            // Exactly: the product of 12 and 6 digits has 18.
            assert_eq!(decimal(get(cost)) * ONE, quantity * decimal(get(price)), "{row:?}");
        }
        assert_eq!(get("BilledCost"), get("ContractedCost"));
        let free = get("x_Free") == "true";
        assert_eq!(free, decimal(get("ContractedUnitPrice")) == 0, "{row:?}");
        let own = get("ChargePeriodStart").starts_with(invoice["month"].as_str().unwrap());
        assert_eq!(get("ChargeClass"), if own { "" } else { "Correction" });
        *list.entry(get("SkuId")).or_default() += decimal(get("ListCost"));
        assert!(get("ChargeDescription").contains(get("ResourceId")));
    }
    let cents = i128::from(int(invoice, "amount_due_cents"));
    assert_eq!(billed, cents * ONE / 100, "the rows sum to the amount due");
    // At list price they are the invoice's lines, resource by resource, within what 12 digits leave out.
    for (sku, resource) in [("sandbox-cpu", "cpu"), ("sandbox-memory", "memory"), ("sandbox-storage", "storage")] {
        let lines = invoice["lines"].as_array().unwrap().iter().filter(|line| line["resource"] == resource);
        let micros: i64 = lines.map(|line| int(line, "amount_micros")).sum();
        let off = list.get(sku).copied().unwrap_or(0) - i128::from(micros) * ONE / 1_000_000;
        assert!(off.abs() < 2 * ONE / 1_000_000, "{resource}: {off}");
    }
}

async fn invoice(api: &Api, account: &str, month: &str) -> Value {
    done(api.get(&format!("/v1/accounts/{account}/invoices/{month}")).await)
}

async fn rows_sum_to_the_invoice(backend: Backend) {
    let engine = Engine::with_customer(backend, time("2026-11-10T00:00:00Z")).await;
    let (api, start) = (&engine.admin, engine.now());
    done(api.patch("/v1/accounts/acme", &json!({"card_on_file": true, "name": "=Acme, \"Inc\""})).await);
    made(api.admit("acme", "ci", &[lease("l", "s", 2, 4_096, 72 * HOUR_S)]).await);
    // 50 free hours, and 10 more; a third of a vCPU, so that quantities have no end of digits.
    for hours in [1, 30, 60] {
        engine.set_clock(start.plus_h(hours)).await;
        let used = hours * 1_200_000_007;
        api.accepted(&[with(sample("acme", "s", "l", engine.now(), used), "storage_mib", 777)]).await;
    }
    // The open hours are in the rows of the lease and the sandbox, and in the draft.
    let draft = invoice(api, "acme", "2026-11").await;
    let found = rows(api, "acme", "2026-11").await;
    check(&found, &draft);
    let of = |sku: &str, free: &str| found.iter().filter(|row| row["SkuId"] == sku && row["x_Free"] == free).count();
    assert_eq!((of("sandbox-cpu", "true"), of("sandbox-cpu", "false")), (50, 10));
    assert_eq!(of("sandbox-storage", "false"), 59);
    assert!(
        found.iter().all(|row| row["BillingAccountName"] == "'=Acme, \"Inc\"" && row["InvoiceDetailId"].is_empty())
    );
    let cpu = found.iter().find(|row| row["SkuId"] == "sandbox-cpu").unwrap();
    assert_eq!(cpu["SkuPriceDetails"], "{\"x_FloorMillicores\": 50, \"x_RateCardId\": \"list\"}");
    assert_eq!(cpu["x_LeaseId"], "l");
    engine.set_clock(time("2026-12-01T00:00:00Z")).await;
    done(api.post("/v1/months/2026-11/close", &json!({})).await);
    let (closed, found) = (invoice(api, "acme", "2026-11").await, rows(api, "acme", "2026-11").await);
    check(&found, &closed);
    let usage = found.iter().filter(|row| row["ChargeCategory"] == "Usage");
    assert!(usage.clone().count() > 170 && usage.clone().all(|row| row["InvoiceDetailId"].starts_with("RT-000001/")));
    // Nothing was used: a file without rows.
    assert!(rows(api, "acme", "2026-10").await.is_empty());
    let reader = engine.customer("acme", "reader", true).await;
    assert_eq!(rows(&reader, "acme", "2026-11").await, found);
    refused(reader.get("/v1/accounts/other/invoices/2026-11.focus.csv").await, 404, "not_found");
    refused(api.get("/v1/accounts/acme/invoices/2027-01.focus.csv").await, 404, "not_found");
    #[cfg(feature = "parquet")]
    {
        let path = "/v1/accounts/acme/invoices/2026-11.focus.parquet";
        let raw = api.raw("GET", path, &[], Vec::new()).await;
        assert_eq!((raw.status, raw.content_type.as_str()), (200, "application/vnd.apache.parquet"));
        typed::assert_same(raw.body, &found);
    }
}

async fn late_usage_is_a_correction(backend: Backend) {
    let engine = Engine::with_payer(backend, time("2026-02-28T20:00:00Z")).await;
    let api = &engine.admin;
    done(api.patch("/v1/accounts/acme", &json!({"tax_rate_bps": 1_900})).await);
    made(api.post("/v1/accounts/acme/grants", &json!({"id": "promo", "credit_micros": 10_007})).await);
    made(api.admit("acme", "ci", &[lease("l", "s", 1, 1_024, 2 * HOUR_S)]).await);
    engine.set_clock(time("2026-02-28T21:00:00Z")).await;
    api.accepted(&[sample("acme", "s", "l", engine.now(), 3_600_000_000)]).await;
    engine.set_clock(time("2026-03-03T00:00:00Z")).await;
    done(api.post("/v1/months/2026-02/close", &json!({})).await);
    let before = rows(api, "acme", "2026-02").await;
    // An hour more, and an end that takes half of it back.
    api.accepted(&[sample("acme", "s", "l", time("2026-02-28T22:00:00Z"), 5_400_000_001)]).await;
    done(api.end("acme", "l", Some(time("2026-02-28T21:30:00Z")), "stop").await);
    api.accepted(&[at_rest("acme", "s", engine.now(), 10)]).await;
    assert_eq!(rows(api, "acme", "2026-02").await, before);
    engine.set_clock(time("2026-03-05T00:00:00Z")).await;
    api.accepted(&[at_rest("acme", "s", engine.now(), 10)]).await;
    let (draft, found) = (invoice(api, "acme", "2026-03").await, rows(api, "acme", "2026-03").await);
    check(&found, &draft);
    let late: Vec<&Row> = found.iter().filter(|row| row["ChargeClass"] == "Correction").collect();
    assert!(
        !late.is_empty() && late.iter().all(|row| row["ChargePeriodStart"].starts_with("2026-02-28T2")),
        "{late:?}"
    );
    engine.set_clock(time("2026-04-01T00:00:00Z")).await;
    done(api.post("/v1/months/2026-03/close", &json!({})).await);
    check(&rows(api, "acme", "2026-03").await, &invoice(api, "acme", "2026-03").await);
    // What an invoice has beside usage is a row a line.
    let february = invoice(api, "acme", "2026-02").await;
    check(&before, &february);
    let paid = |category: &str| {
        before.iter().find(|row| row["ChargeCategory"] == category).map(|row| decimal(&row["BilledCost"]))
    };
    let line = |resource: &str| february["lines"].as_array().unwrap().iter().find(|line| line["resource"] == resource);
    for (category, resource) in [("Credit", "credit"), ("Tax", "tax")] {
        let micros = i128::from(int(line(resource).unwrap(), "amount_micros"));
        assert_eq!(paid(category), Some(micros * ONE / 1_000_000), "{category}");
        assert_ne!(micros, 0);
    }
}

async fn what_a_void_takes_back_is_below_zero(backend: Backend) {
    let engine = Engine::with_payer(backend, time("2026-02-28T20:00:00Z")).await;
    let api = &engine.admin;
    made(api.admit("acme", "ci", &[lease("l", "s", 1, 1_024, HOUR_S)]).await);
    engine.set_clock(time("2026-02-28T21:00:00Z")).await;
    api.accepted(&[sample("acme", "s", "l", engine.now(), 3_600_000_000)]).await;
    engine.set_clock(time("2026-03-03T00:00:00Z")).await;
    done(api.post("/v1/months/2026-02/close", &json!({})).await);
    let void = json!({"id": "v", "lease": "l", "at": "2026-02-28T21:00:00.000Z", "reason": "a wrong counter"});
    made(api.post("/v1/accounts/acme/voids", &void).await);
    for month in ["2026-03", "2026-02"] {
        check(&rows(api, "acme", month).await, &invoice(api, "acme", month).await);
    }
    let found = rows(api, "acme", "2026-03").await;
    assert!(found.iter().any(|row| row["SkuId"] == "sandbox-cpu" && decimal(&row["ListCost"]) < 0), "{found:?}");
}

async fn all_accounts_in_one_file(backend: Backend) {
    let engine = Engine::start(backend, time("2026-11-10T00:00:00Z")).await;
    let api = &engine.admin;
    let start = engine.now();
    for account in ["a", "b", "idle"] {
        made(api.account(account, true).await);
        made(api.key(account, "ci", None).await);
    }
    for account in ["a", "b"] {
        made(api.admit(account, "ci", &[lease("l", "s", 1, 1_024, 80 * HOUR_S)]).await);
    }
    engine.set_clock(start.plus_h(80)).await;
    let at = engine.now();
    api.accepted(&[sample("a", "s", "l", at, 1_000_000_000), sample("b", "s", "l", at, 2_000_000_000)]).await;
    engine.set_clock(time("2026-12-01T00:00:00Z")).await;
    done(api.post("/v1/months/2026-11/close", &json!({})).await);
    let mut apart = Vec::new();
    for account in ["a", "b", "idle"] {
        apart.extend(rows(api, account, "2026-11").await);
    }
    let export = |more: &[&str]| {
        let mut arguments = vec!["export", "2026-11", "--database", engine.database()];
        arguments.extend(more);
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_runtab")).args(&arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(String::from_utf8_lossy(&output.stderr).contains(" rows of "));
        output.stdout
    };
    assert_eq!(read(&String::from_utf8(export(&[])).unwrap()), apart);
    let one = read(&String::from_utf8(export(&["--account", "b"])).unwrap());
    assert!(one.len() > 100 && one.iter().all(|row| row["BillingAccountId"] == "b"));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("all.csv");
    assert!(export(&["--output", file.to_str().unwrap()]).is_empty());
    assert_eq!(read(&std::fs::read_to_string(&file).unwrap()), apart);
    #[cfg(feature = "parquet")]
    {
        let file = folder.path().join("all.parquet");
        export(&["--output", file.to_str().unwrap()]);
        typed::assert_same(std::fs::read(&file).unwrap(), &apart);
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), if cfg!(feature = "parquet") { 2 } else { 1 });
}

#[cfg(feature = "parquet")]
mod typed {
    //! A Parquet file, read back.

    use arrow_array::cast::AsArray as _;
    use arrow_array::types::{Decimal128Type, TimestampMillisecondType};
    use arrow_array::{Array as _, RecordBatch};
    use arrow_schema::DataType;
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

    use super::{Row, decimal};
    use crate::harness::time;

    pub(super) fn assert_same(bytes: Vec<u8>, rows: &[Row]) {
        let reader = ParquetRecordBatchReaderBuilder::try_new(bytes::Bytes::from(bytes)).unwrap().build().unwrap();
        let batches: Vec<RecordBatch> = reader.map(|batch| batch.unwrap()).collect();
        assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), rows.len());
        let mut place = 0;
        for batch in &batches {
            let schema = batch.schema();
            for row in 0..batch.num_rows() {
                for (field, column) in schema.fields().iter().zip(batch.columns()) {
                    let text = rows[place][field.name()].as_str();
                    if column.is_null(row) {
                        assert_eq!(text, "", "{}", field.name());
                        continue;
                    }
                    match field.data_type() {
                        DataType::Utf8 => {
                            // In a spreadsheet an apostrophe keeps a formula harmless; here there is none.
                            let found = column.as_string::<i32>().value(row);
                            assert!(found == text || format!("'{found}") == text, "{}: {found}", field.name());
                        }
                        DataType::Decimal128(_, scale) => {
                            let more = 18 - u32::try_from(*scale).unwrap();
                            let found = column.as_primitive::<Decimal128Type>().value(row) * 10_i128.pow(more);
                            assert_eq!(found, decimal(text), "{}", field.name());
                        }
                        DataType::Timestamp(_, zone) => {
                            assert_eq!(zone.as_deref(), Some("UTC"));
                            let found = column.as_primitive::<TimestampMillisecondType>().value(row);
                            assert_eq!(found, time(text).0, "{}", field.name());
                        }
                        other => panic!("{other}"),
                    }
                }
                place += 1;
            }
        }
    }
}
