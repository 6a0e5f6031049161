//! Posting: usage by hour against what was posted before, and the free time that it draws or gives back.

use runtab::domain::usage::Usage;

use super::{Account, DAY, Grant, HOUR, Posted, minus, usage};

/// Draws what an hour lacks from the grants that pay on its day, in the documented order; answers how much there was.
fn draw(grants: &mut [Grant], draws: &mut Vec<(String, i64)>, day: i64, lacks: i64) -> i64 {
    let mut order: Vec<&mut Grant> =
        grants.iter_mut().filter(|grant| grant.starts <= day && grant.expires.is_none_or(|end| day < end)).collect();
    order.sort_by_key(|grant| (grant.expires.unwrap_or(i64::MAX), grant.starts, grant.id.clone()));
    let mut drawn = 0;
    for grant in order {
        let taken = (grant.granted - grant.used).min(lacks - drawn);
        if taken > 0 {
            grant.used += taken;
            drawn += taken;
            match draws.iter_mut().find(|(id, _)| *id == grant.id) {
                Some((_, ms)) => *ms += taken,
                None => draws.push((grant.id.clone(), taken)),
            }
        }
    }
    drawn
}

/// How much of a demand by day free time would pay for.
pub(crate) fn covered(grants: &[Grant], demand: &std::collections::BTreeMap<i64, i64>) -> i64 {
    let mut grants = grants.to_vec();
    demand.iter().map(|(day, wanted)| draw(&mut grants, &mut Vec::new(), *day, *wanted)).sum()
}

fn post_hour(grants: &mut [Grant], posted: &mut Posted, hour: i64, usage: Usage) {
    posted.usage = usage;
    let run = i64::try_from(usage.run_ms).unwrap();
    if run >= posted.free_ms {
        posted.free_ms += draw(grants, &mut posted.draws, hour * HOUR / DAY, run - posted.free_ms);
    } else {
        let mut surplus = posted.free_ms - run;
        for (id, ms) in posted.draws.iter_mut().rev() {
            let back = surplus.min(*ms);
            *ms -= back;
            surplus -= back;
            grants.iter_mut().find(|grant| grant.id == *id).unwrap().used -= back;
        }
        assert_eq!(surplus, 0);
        posted.free_ms = run;
    }
    let part = |of: i128| if run > 0 { (of * i128::from(posted.free_ms)).div_euclid(i128::from(run)) } else { 0 };
    posted.free = Usage { cpu_us: part(usage.cpu_us), memory_mib_ms: part(usage.memory_mib_ms), ..Usage::ZERO };
}

impl Account {
    /// Posts what an event changed of a lease, hours ascending. `late`: a correction, which the promise leaves out.
    pub(crate) fn post(&mut self, lease: &str, late: bool) {
        let mut lease = self.leases.remove(lease).unwrap();
        let now = usage::by_hour(&lease, self, true);
        let mut hours: Vec<i64> = now.keys().chain(lease.posted.keys()).copied().collect();
        hours.sort_unstable();
        hours.dedup();
        for hour in hours {
            let usage = now.get(&hour).copied().unwrap_or_default();
            let mut posted = lease.posted.get(&hour).cloned().unwrap_or_default();
            if posted.usage != usage {
                let before = minus(posted.usage, posted.free);
                post_hour(&mut self.grants, &mut posted, hour, usage);
                let day = hour * HOUR / DAY;
                let change = self.price(day, minus(minus(posted.usage, posted.free), before));
                *lease.promised.entry(day).or_default() += if late { change.min(0) } else { change };
                lease.posted.insert(hour, posted);
            }
        }
        self.leases.insert(lease.id.clone(), lease);
    }
}
