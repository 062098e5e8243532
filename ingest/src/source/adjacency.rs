//! Adjacency lists: line `i` (from 0) is `degree neighbour neighbour ...` of node `i`. Every line
//! is a node, so there are no comments, and blank lines only at the end.

use crate::error::quoted;
use crate::source::edge_list::{BadLine, Key, LISTED, Pushed};

/// What a neighbour must be.
const NEIGHBOUR: &str = "an integer id from 0 to 18446744073709551615, without leading zeros";

/// Whether the first lines look like this format and not like an edge list: every count is right,
/// and the lines have different lengths.
pub fn looks_like(text: &[u8]) -> bool {
    let mut lengths = Vec::new();
    // The last line may be incomplete.
    let whole = text.iter().rposition(|&byte| byte == b'\n').map_or(text.len(), |end| end + 1);
    for line in
        text[..whole].split(|&byte| byte == b'\n').filter(|line| !line.is_empty()).take(1000)
    {
        let cells: Vec<_> = cells(line).collect();
        match cells.first().map(|cell| u64::parse(cell)) {
            Some(Ok(degree)) if degree as usize == cells.len() - 1 => lengths.push(cells.len()),
            _ => return false,
        }
    }
    lengths.iter().any(|&length| length != lengths[0])
}

fn cells(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| byte.is_ascii_whitespace()).filter(|cell| !cell.is_empty())
}

/// Parses whole lines, starting with the line of node `first`. Edges go from the node of the line
/// to its neighbours, which must be below `nodes`, if that is known.
pub fn parse(
    text: &[u8],
    first: u64,
    nodes: Option<u64>,
    mut push: impl FnMut(u64, u64, f32) -> Pushed,
) -> Result<Pushed, BadLine> {
    let mut at = 0;
    for (node, line) in (first..).zip(text.split_inclusive(|&byte| byte == b'\n')) {
        let start = at;
        at += line.len();
        let bad =
            |expected: String, found: &[u8]| BadLine { at: start, expected, found: quoted(found) };
        let mut cells = cells(line);
        let degree = cells.next().unwrap_or_default();
        let degree =
            u64::parse(degree).map_err(|_| bad("a number of neighbours".into(), degree))?;
        let mut found = 0;
        for cell in cells {
            let neighbour = u64::parse(cell).map_err(|_| bad(NEIGHBOUR.into(), cell))?;
            if let Some(nodes) = nodes.filter(|&nodes| nodes <= neighbour) {
                return Err(bad(format!("a neighbour below {nodes}, the number of nodes"), cell));
            }
            found += 1;
            match push(node, neighbour, 1.0) {
                Pushed::Taken => {}
                Pushed::Full => return Ok(Pushed::Full),
                _ => return Err(bad(LISTED.into(), cell)),
            }
        }
        if found != degree {
            let expected = format!("{degree} neighbours, as the first number of the line says");
            return Err(BadLine { at: start, expected, found: found.to_string() });
        }
    }
    Ok(Pushed::Taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_nodes() {
        let mut edges = Vec::new();
        let mut push = |source, target, _| {
            edges.push((source, target));
            Pushed::Taken
        };
        parse(b"2 5 6\n0\r\n1 9", 10, Some(13), &mut push).unwrap();
        assert_eq!(edges, [(10, 5), (10, 6), (12, 9)]);
    }

    #[test]
    fn wrong_counts_are_reported() {
        let error = |text: &[u8]| {
            let bad = parse(text, 0, Some(3), |_, _, _| Pushed::Taken).unwrap_err();
            (bad.at, bad.expected, bad.found)
        };
        let expected = "2 neighbours, as the first number of the line says".to_string();
        assert_eq!(error(b"1 0\n2 1\n"), (4, expected, "1".into()));
        assert_eq!(error(b"x 0\n"), (0, "a number of neighbours".into(), "\"x\"".into()));
        assert_eq!(error(b"1 0\n\n1 0\n").0, 4);
        let expected = "a neighbour below 3, the number of nodes".to_string();
        assert_eq!(error(b"1 1\n2 0 3\n"), (4, expected, "\"3\"".into()));
    }

    #[test]
    fn the_format_is_distinguished_from_edge_lists() {
        assert!(looks_like(b"2 5 6\n0\n1 9\n"));
        assert!(!looks_like(b"1 5\n1 6\n1 9\n"));
        assert!(!looks_like(b"2 5\n3 6\n"));
        assert!(!looks_like(b"# x\n2 5 6\n"));
    }
}
