//! Positions of the names at the ends of lines: as close as possible without overlap. `chart`
//! draws them.

/// Positions near the wanted ones, at least `gap` apart, between `top` and `bottom` if there is
/// room; in the order given.
pub(super) fn spread(wanted: &[f64], gap: f64, top: f64, bottom: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|&a, &b| wanted[a].total_cmp(&wanted[b]));
    // Neighbours that are too close become one block, which is centred on the mean of the wanted
    // positions of its members.
    let mut blocks: Vec<(f64, Vec<usize>)> = Vec::new();
    let height = |count: usize| gap * (count - 1) as f64;
    for item in order {
        blocks.push((wanted[item], vec![item]));
        while let [.., before, last] = &blocks[..] {
            let overlap =
                before.0 + height(before.1.len()) / 2.0 + gap > last.0 - height(last.1.len()) / 2.0;
            if !overlap {
                break;
            }
            let (_, mut members) = blocks.pop().expect("two blocks");
            let (centre, all) = blocks.last_mut().expect("one block");
            all.append(&mut members);
            *centre = all.iter().map(|&item| wanted[item]).sum::<f64>() / all.len() as f64;
        }
    }
    let mut placed = vec![0.0; wanted.len()];
    let mut least = top;
    for (centre, members) in &blocks {
        let first = (centre - height(members.len()) / 2.0).max(least);
        for (at, &item) in members.iter().enumerate() {
            placed[item] = first + gap * at as f64;
        }
        least = first + gap * members.len() as f64;
    }
    // Names below the lower edge are pushed back up.
    let mut most = bottom;
    for (_, members) in blocks.iter().rev() {
        for &item in members.iter().rev() {
            placed[item] = placed[item].min(most);
            most = placed[item] - gap;
        }
    }
    placed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_their_distance_and_their_order() {
        assert_eq!(spread(&[10.0, 50.0], 14.0, 0.0, 100.0), [10.0, 50.0]);
        assert_eq!(spread(&[50.0, 50.0, 50.0], 10.0, 0.0, 100.0), [40.0, 50.0, 60.0]);
        assert_eq!(spread(&[99.0, 98.0, 97.0], 10.0, 0.0, 100.0), [100.0, 90.0, 80.0]);
        assert_eq!(spread(&[0.0, 1.0], 10.0, 0.0, 100.0), [0.0, 10.0]);
        assert!(spread(&[], 10.0, 0.0, 100.0).is_empty());
    }
}
