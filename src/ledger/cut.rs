//! Cutting what waits into batches of a bounded weight, in order.

/// Batches that weigh at most `most` together; what weighs more by itself is a batch of its own.
pub(super) fn cut<T>(items: Vec<T>, most: usize, weight: impl Fn(&T) -> usize) -> Vec<Vec<T>> {
    let mut batches: Vec<Vec<T>> = Vec::new();
    let mut sum = 0_usize;
    for item in items {
        let more = weight(&item);
        sum = sum.saturating_add(more);
        match batches.last_mut() {
            Some(batch) if sum <= most => batch.push(item),
            Some(_) | None => {
                sum = more;
                batches.push(vec![item]);
            }
        }
    }
    batches
}

#[cfg(test)]
mod tests {
    use super::cut;

    #[test]
    fn batches_keep_order_and_weight() {
        let batches = cut(vec![600, 400, 1, 1_000, 2_000, 1, 1], 1_000, |weight| *weight);
        assert_eq!(batches, [vec![600, 400], vec![1], vec![1_000], vec![2_000], vec![1, 1]]);
        assert!(cut(Vec::<usize>::new(), 1, |weight| *weight).is_empty());
    }
}
