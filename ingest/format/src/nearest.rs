//! The known word that is closest to a misspelt one, for messages about keys and names.

/// The closest of the words, if it is close enough: at most one edit, and one more per four
/// letters.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let distances = known.into_iter().map(|other| (edit_distance(word, other), other));
    let near = distances.filter(|(distance, other)| *distance <= 1 + other.len() / 4);
    near.min_by_key(|(distance, _)| *distance).map(|(_, other)| other)
}

/// Number of edits: letters inserted, removed, replaced or swapped with their neighbour.
fn edit_distance(a: &str, b: &str) -> usize {
    // Longer words are not close to any key.
    let (a, b): (Vec<char>, Vec<char>) =
        (a.chars().take(64).collect(), b.chars().take(64).collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for (i, &x) in a.iter().enumerate() {
        let above = &rows[i];
        let mut row = vec![i + 1];
        for (j, &y) in b.iter().enumerate() {
            let mut least = (above[j] + usize::from(x != y)).min(above[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && x == b[j - 1] && a[i - 1] == y {
                least = least.min(rows[i - 1][j - 1] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_words_are_found_and_far_ones_are_not() {
        let known = ["state", "slope", "kappa"];
        assert_eq!(nearest("stat", known), Some("state"));
        assert_eq!(nearest("kapap", known), Some("kappa"));
        assert_eq!(nearest("colour", known), None);
        assert_eq!(
            (
                edit_distance("", "abc"),
                edit_distance("ab", "ba"),
                edit_distance("kitten", "sitting")
            ),
            (3, 1, 3)
        );
    }
}
