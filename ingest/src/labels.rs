//! Node labels from a table (`node,label`) or from a community file. This module finds the nodes
//! and orders the classes; `ignn-format` writes the files.
//!
//! Labels are held in memory: 8 bytes each while they are read, and up to 8 bytes per node.

use std::collections::HashMap;
use std::path::Path;

use ignn_format::labels::Labels;

use crate::context::{Context, Unit};
use crate::error::{IngestError, Result, quoted};
use crate::node_set::NodeSet;
use crate::nodes::NodeLookup;
use crate::source::communities;
use crate::source::table::{ColumnKind, MissingTexts, Table, unknown};

/// Which communities of a community file become labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommunityChoice {
    /// All of them.
    All,
    /// Those with more members than this.
    LargerThan(u64),
    /// The largest ones, this many.
    Top(usize),
}

/// Names of the label column in tables with more than two columns, in lower case.
const LABEL_NAMES: [&str; 3] = ["label", "class", "y"];
/// The same in messages.
const LABEL_NAMES_SHOWN: &str = "\"label\", \"class\" or \"y\"";
/// From this many classes on, names that are numbers are noted.
const MANY_NUMBERS: usize = 20;
/// Where fewer than one node in so many has several labels, these may be mistakes.
const FEW_SETS: usize = 20;

/// Reads a table with one row per label of a node. If any node has several labels, all nodes have
/// sets of labels. Repeated rows and missing labels are ignored. Classes are ordered as numbers if
/// all names are integers, else by their bytes.
pub fn from_table(context: &Context, nodes: &dyn NodeLookup, path: &Path) -> Result<Labels> {
    let table = Table::open(path, nodes.kind(), false, context.memory / 4)?;
    let column = label_column(&table)?;
    from_column(context, nodes, table, column)
}

/// The same from a column of a table.
pub fn from_column(
    context: &Context,
    nodes: &dyn NodeLookup,
    mut table: Table,
    column: usize,
) -> Result<Labels> {
    context.observer.phase("labels", None, Unit::Items("rows"));
    table.require_id()?;
    let path = &table.path().to_path_buf();
    use ColumnKind::{Boolean, Float, Integer, Text};
    table.require(column, &[Text, Integer, Float, Boolean], "labels: text or integers")?;

    let mut names: Vec<String> = Vec::new();
    let mut known: HashMap<String, u32> = HashMap::new();
    let mut pairs = Pairs::new(context, nodes, path)?;
    let mut missing = MissingTexts::default();
    while let Some(batch) = table.next_batch()? {
        for row in 0..batch.rows() {
            let node = table.node(&batch, row, nodes)?;
            let Some(name) = missing.value(batch.cell(row, column)) else { continue };
            let class = match known.get(name.as_ref()) {
                Some(&class) => class,
                None => {
                    let class = names.len() as u32;
                    if class > i32::MAX as u32 {
                        return Err(table.error(
                            batch.number(row),
                            "at most 2^31 classes",
                            "one more",
                        ));
                    }
                    pairs.charge(2 * (name.len() + NAME_BYTES) as u64)?;
                    names.push(name.clone().into_owned());
                    known.insert(name.into_owned(), class);
                    class
                }
            };
            pairs.push(node, class)?;
        }
        context.observer.advance(batch.rows() as u64);
    }
    if let Some(note) = missing.note(&table, column, "without a label") {
        context.observer.note(&note);
    }
    let is_decimal = |name: &&String| name.contains('.') && name.parse::<f64>().is_ok();
    if names.len() >= MANY_NUMBERS && 2 * names.iter().filter(is_decimal).count() > names.len() {
        context.observer.note(&format!(
            "{}: {}: {} classes whose names are numbers: to predict a number, read the column with \
             --regress",
            table.path().display(),
            table.column_name(column),
            names.len()
        ));
    }
    let mut pairs = pairs.finish();
    if pairs.is_empty() {
        return Err(IngestError::file(
            path,
            format!("no labels: {} is empty", table.column_name(column)),
        ));
    }
    drop(known);

    let order = class_order(&names);
    let mut rank = vec![0; names.len()];
    for (position, &class) in order.iter().enumerate() {
        rank[class] = position as u32;
    }
    for pair in &mut pairs {
        pair.1 = rank[pair.1 as usize];
    }
    pairs.sort_unstable();
    pairs.dedup();
    let classes: Vec<String> =
        order.iter().map(|&class| std::mem::take(&mut names[class])).collect();
    let same = |two: &[(u32, u32)]| two[0].0 == two[1].0;
    if let Some(first) = pairs.windows(2).find(|two| same(two)) {
        let labelled = pairs.chunk_by(|a, b| a.0 == b.0).count();
        let several = pairs.chunk_by(|a, b| a.0 == b.0).filter(|of| of.len() > 1).count();
        if several * FEW_SETS < labelled {
            let [a, b] = [first[0].1, first[1].1].map(|class| &classes[class as usize]);
            context.observer.note(&format!(
                "{}: {several} of {labelled} nodes have several labels, such as {a:?} and {b:?}: all \
                 labels are read as sets of classes; if that is a mistake, remove the rows",
                path.display()
            ));
        }
        return Ok(sets(classes, &pairs, nodes.nodes()));
    }
    let mut of = vec![-1; nodes.nodes() as usize];
    for (node, class) in pairs {
        of[node as usize] = class as i32;
    }
    Ok(Labels::Single { classes, of })
}

/// Reads a column of numbers, one row per node. A node whose number is missing, or that has no row,
/// is not labelled.
pub fn numbers_from_column(
    context: &Context,
    nodes: &dyn NodeLookup,
    mut table: Table,
    column: usize,
) -> Result<Labels> {
    context.observer.phase("labels", None, Unit::Items("rows"));
    table.require_id()?;
    use ColumnKind::{Float, Integer, Text};
    table.require(column, &[Text, Integer, Float], "numbers to predict")?;
    let needs = nodes.nodes() * size_of::<f64>() as u64;
    if needs > context.memory / 2 {
        return Err(IngestError::memory(table.path(), "the labels", needs, context.memory / 2));
    }
    let name = table.names().map_or_else(|| "label".into(), |names| names[column].clone());
    let mut of = vec![f64::NAN; nodes.nodes() as usize];
    let mut seen = NodeSet::new(nodes.nodes());
    while let Some(batch) = table.next_batch()? {
        for row in 0..batch.rows() {
            let node = table.new_node(&batch, row, nodes, &mut seen)?;
            let cell = batch.cell(row, column);
            if cell.is_missing() {
                continue;
            }
            of[node as usize] = cell.finite().ok_or_else(|| {
                let expected = format!("a finite number in {}", table.column_name(column));
                table.error(batch.number(row), &expected, cell.shown())
            })?;
        }
        context.observer.advance(batch.rows() as u64);
    }
    if of.iter().all(|number| number.is_nan()) {
        let what = format!("no labels: {} is empty", table.column_name(column));
        return Err(IngestError::file(table.path(), what));
    }
    Ok(Labels::numbers(name, of))
}

/// Reads a community file. The labels of a node are the set of communities that it belongs to.
/// Classes are ordered by size, largest first, then by their position in the file. The name of a
/// class is the number of its community in the file, from 0 (comments and blank lines do not
/// count). Members of communities that are not chosen are not looked up.
pub fn from_communities(
    context: &Context,
    nodes: &dyn NodeLookup,
    path: &Path,
    choice: CommunityChoice,
) -> Result<Labels> {
    if choice == CommunityChoice::Top(0) {
        return Err(IngestError::Usage("--communities-top 0: expected at least 1".into()));
    }
    context.observer.phase("communities", None, Unit::Items("communities"));
    let mut sizes: Vec<u64> = Vec::new();
    communities::for_each(path, |community| {
        let mut members: Vec<&str> = community.members().collect();
        members.sort_unstable();
        members.dedup();
        sizes.push(members.len() as u64);
        Ok(())
    })?;
    let chosen = choose(context, path, &sizes, choice)?;
    let classes: HashMap<u64, u32> =
        chosen.iter().enumerate().map(|(class, &index)| (index, class as u32)).collect();
    let mut pairs = Pairs::new(context, nodes, path)?;
    communities::for_each(path, |community| {
        let Some(&class) = classes.get(&community.index) else { return Ok(()) };
        for member in community.members() {
            let node = nodes.find_text(member)?.ok_or_else(|| {
                let found = unknown(&quoted(member.as_bytes()));
                IngestError::line(path, community.line, "ids of nodes of the graph", found)
            })?;
            pairs.push(node, class)?;
        }
        context.observer.advance(1);
        Ok(())
    })?;
    let pairs = pairs.finish();
    let names = chosen.iter().map(u64::to_string).collect();
    Ok(sets(names, &pairs, nodes.nodes()))
}

/// Overhead of a class name in bytes, besides its text, in each of the two places that hold it.
const NAME_BYTES: usize = 48;

/// Pairs of node and class, each once, in bounded memory: repeated ones are dropped on the way.
struct Pairs<'a> {
    path: &'a Path,
    /// Bytes that may be used, and those used for anything but the pairs.
    allowed: u64,
    used: u64,
    pairs: Vec<(u32, u32)>,
    /// Number of pairs at which repeated ones are dropped.
    compact_at: usize,
}

impl<'a> Pairs<'a> {
    fn new(context: &Context, nodes: &dyn NodeLookup, path: &'a Path) -> Result<Self> {
        let mut pairs = Self {
            path,
            allowed: context.memory / 2,
            used: 0,
            pairs: Vec::new(),
            compact_at: 1 << 16,
        };
        // The result has an offset or a class per node.
        pairs.charge(nodes.nodes() * 8)?;
        Ok(pairs)
    }

    /// Counts bytes as used; an error if they do not fit.
    fn charge(&mut self, bytes: u64) -> Result<()> {
        self.used += bytes;
        let needs = self.used + (self.pairs.capacity() * size_of::<(u32, u32)>()) as u64;
        if needs > self.allowed {
            return Err(IngestError::memory(self.path, "the labels", needs, self.allowed));
        }
        Ok(())
    }

    fn push(&mut self, node: u32, class: u32) -> Result<()> {
        if self.pairs.len() == self.compact_at {
            self.pairs.sort_unstable();
            self.pairs.dedup();
            self.compact_at = (2 * self.pairs.len()).max(1 << 16);
            self.pairs.reserve_exact(self.compact_at - self.pairs.len());
            self.charge(0)?;
        }
        self.pairs.push((node, class));
        Ok(())
    }

    /// The pairs, in order.
    fn finish(mut self) -> Vec<(u32, u32)> {
        self.pairs.sort_unstable();
        self.pairs.dedup();
        self.pairs
    }
}

/// Indices of the communities that become classes, in class order.
fn choose(
    context: &Context,
    path: &Path,
    sizes: &[u64],
    choice: CommunityChoice,
) -> Result<Vec<u64>> {
    let mut order: Vec<u64> = (0..sizes.len() as u64).collect();
    order.sort_by_key(|&index| std::cmp::Reverse(sizes[index as usize]));
    match choice {
        CommunityChoice::All => {}
        CommunityChoice::Top(count) => {
            if count > sizes.len() {
                let has = sizes.len();
                context.observer.note(&format!(
                    "{}: {has} communities, all of them used ({count} were requested)",
                    path.display()
                ));
            }
            order.truncate(count);
        }
        CommunityChoice::LargerThan(limit) => {
            let largest = order.first().map_or(0, |&index| sizes[index as usize]);
            order.retain(|&index| sizes[index as usize] > limit);
            if order.is_empty() {
                let what = format!(
                    "no community has more than {limit} members (the largest has {largest})"
                );
                return Err(IngestError::file(path, what));
            }
        }
    }
    if order.len() > i32::MAX as usize {
        let what =
            format!("{} communities (expected fewer than 2^31): choose the largest", order.len());
        return Err(IngestError::file(path, what));
    }
    Ok(order)
}

fn label_column(table: &Table) -> Result<usize> {
    let columns = table.value_columns();
    if let [column] = columns[..] {
        return Ok(column);
    }
    let named = table.names().and_then(|names| {
        let is = |column: &usize, name: &str| names[*column].eq_ignore_ascii_case(name);
        LABEL_NAMES.iter().find_map(|name| columns.iter().copied().find(|column| is(column, name)))
    });
    named.ok_or_else(|| {
        let found = match table.names() {
            Some(names) => quoted(names.join(", ").as_bytes()),
            None => match columns.len() + usize::from(table.id_column().is_some()) {
                1 => "1 column without a header".into(),
                columns => format!("{columns} columns without a header"),
            },
        };
        let what = format!(
            "no column of labels (found: {found}; expected two columns, node and label, or a header \
             with a column named {LABEL_NAMES_SHOWN})"
        );
        IngestError::file(table.path(), what)
    })
}

/// Order of classes: by number if all names are integers, else by bytes.
fn class_order(names: &[String]) -> Vec<usize> {
    let numbers: Option<Vec<i128>> = names.iter().map(|name| name.parse().ok()).collect();
    let mut order: Vec<usize> = (0..names.len()).collect();
    match numbers {
        // "7" and "07" are different names of the same number.
        Some(numbers) => {
            order.sort_by(|&a, &b| (numbers[a], &names[a]).cmp(&(numbers[b], &names[b])));
        }
        None => order.sort_by(|&a, &b| names[a].cmp(&names[b])),
    }
    order
}

/// Label sets from pairs `(node, class)`, sorted and without duplicates.
fn sets(classes: Vec<String>, pairs: &[(u32, u32)], nodes: u64) -> Labels {
    let mut offsets = vec![0u64; nodes as usize + 1];
    for &(node, _) in pairs {
        offsets[node as usize + 1] += 1;
    }
    for node in 0..nodes as usize {
        offsets[node + 1] += offsets[node];
    }
    Labels::sets(classes, offsets, pairs.iter().map(|pair| pair.1).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::Recorder;
    use crate::nodes::Consecutive;
    use proptest::prelude::*;

    fn with<T>(bytes: &[u8], read: impl FnOnce(&Context, &Path) -> Result<T>) -> Result<T, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("labels.csv");
        std::fs::write(&path, bytes).unwrap();
        let observer = Recorder::default();
        let context = Context { threads: 1, memory: 1 << 20, seed: 0, observer: &observer };
        read(&context, &path)
            .map_err(|error| error.to_string().replace(&format!("{}/", dir.path().display()), ""))
    }

    fn table(text: &str) -> Result<Labels, String> {
        with(text.as_bytes(), |context, path| from_table(context, &Consecutive(4), path))
    }

    fn cmty(text: &str, choice: CommunityChoice) -> Result<Labels, String> {
        with(text.as_bytes(), |context, path| {
            from_communities(context, &Consecutive(4), path, choice)
        })
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.into()).collect()
    }

    #[test]
    fn single_labels_numeric_order_and_gaps() {
        let labels = table("node,label\r\n3,10\r\n0,9\r\n1,\r\n0,9\r\n").unwrap();
        assert_eq!(labels, Labels::Single { classes: names(&["9", "10"]), of: vec![0, -1, -1, 1] });
        let labels = table("0 b\n1 a\n2 \"10\n").unwrap();
        assert_eq!(
            labels,
            Labels::Single { classes: names(&["\"10", "a", "b"]), of: vec![2, 1, 0, -1] }
        );
    }

    #[test]
    fn several_labels_of_a_node_make_sets() {
        let labels = table("label\tid\tnote\nx, y\t2\t\nb\t0\t.\nx, y\t0\t\nb\t0\t\n").unwrap();
        let expected = Labels::sets(names(&["b", "x, y"]), vec![0, 2, 2, 3, 3], vec![0, 1, 1]);
        assert_eq!(labels, expected);
    }

    #[test]
    fn few_nodes_with_several_labels_are_noted() {
        let noted = |several: usize| {
            let rows: String = (0..100)
                .map(|node| format!("{node},a\n") + if node < several { "0,b\n1,b\n" } else { "" })
                .collect();
            let observer = Recorder::default();
            with(format!("node,label\n{rows}").as_bytes(), |context, path| {
                let context = Context { observer: &observer, ..*context };
                from_table(&context, &Consecutive(100), path)
            })
            .unwrap();
            observer.notes()
        };
        assert_eq!(noted(0), [""; 0]);
        let [note] = &noted(1)[..] else { panic!("one note") };
        assert!(
            note.contains(": 2 of 100 nodes have several labels, such as \"a\" and \"b\""),
            "{note}"
        );
    }

    #[test]
    fn communities_by_size_then_line() {
        let text = "0 1\n# c\n1 2 3 3\n2\n0 3\n";
        let top = cmty(text, CommunityChoice::Top(2)).unwrap();
        let expected = Labels::sets(names(&["1", "0"]), vec![0, 1, 3, 4, 5], vec![1, 0, 1, 0, 0]);
        assert_eq!(top, expected);
        let Labels::Multi { classes, .. } = cmty(text, CommunityChoice::LargerThan(1)).unwrap()
        else {
            panic!()
        };
        assert_eq!(classes, ["1", "0", "3"]);
        let Labels::Multi { classes, .. } = cmty(text, CommunityChoice::All).unwrap() else {
            panic!()
        };
        assert_eq!(classes, ["1", "0", "3", "2"]);
    }

    #[test]
    fn malformed_files_have_exact_messages() {
        let cases = [
            ("", "labels.csv: no rows (expected one line per node)"),
            ("node,label\n", "labels.csv: no rows after the header"),
            (
                "node,label\n7,a\n",
                "labels.csv:2: expected the id of a node of the graph, found \"7\" (unknown: if it is a \
             node without edges, list all nodes with --nodes-file)",
            ),
            (
                "node,label\n-1,a\n",
                "labels.csv:2: expected the id of a node of the graph, found \"-1\" (unknown: if it is a \
             node without edges, list all nodes with --nodes-file)",
            ),
            ("node,label\n,a\n", "labels.csv:2: expected a node id, found an empty cell"),
            ("node,label\n0,a\n1\n", "labels.csv:3: expected 2 columns, found 1: \"1\""),
            (
                "0,a,b\n",
                "labels.csv: no column of labels (found: 3 columns without a header; expected two \
                 columns, node and label, or a header with a column named \"label\", \"class\" or \
                 \"y\")",
            ),
            (
                "0\n",
                "labels.csv: no column of labels (found: 1 column without a header; expected two \
                 columns, node and label, or a header with a column named \"label\", \"class\" or \
                 \"y\")",
            ),
            (
                "paper,title,venue\n0,a,b\n",
                "labels.csv: no column of labels (found: \"paper, title, venue\"; expected two \
                 columns, node and label, or a header with a column named \"label\", \"class\" or \
                 \"y\")",
            ),
            (
                "venue,paper\nx,0\n",
                "labels.csv:2: expected the id of a node of the graph in column \"venue\" (ids are in \
                 the first column, or in one named \"node\", \"id\" or \"node_id\"), found \"x\" (unknown: \
                 if it is a node without edges, list all nodes with --nodes-file)",
            ),
            ("node,label\n0,\n", "labels.csv: no labels: column \"label\" is empty"),
            (
                "0,\"a\n",
                "labels.csv:1: expected a closing quote on the same line (a cell cannot \
             continue on the next line), found \"0,\\\"a\"",
            ),
            (
                "0,\"a\"b\n",
                "labels.csv:1: expected a separator after the closing quote (a quote inside \
             a quoted cell is written twice), found \
                 \"0,\\\"a\\\"b\"",
            ),
            ("0,a\0\n", "labels.csv: byte 0 at offset 3: a binary file (expected text)"),
        ];
        for (text, message) in cases {
            assert_eq!(table(text).unwrap_err(), message, "{text:?}");
        }
        let unknown = cmty("0 1\n1 9\n", CommunityChoice::All).unwrap_err();
        assert_eq!(
            unknown,
            "labels.csv:2: expected ids of nodes of the graph, found \"9\" (unknown: if it is a \
             node without edges, list all nodes with --nodes-file)"
        );
        let none = cmty("0 1\n1 2\n", CommunityChoice::LargerThan(2)).unwrap_err();
        assert_eq!(none, "labels.csv: no community has more than 2 members (the largest has 2)");
        let zero = cmty("0 1\n", CommunityChoice::Top(0)).unwrap_err();
        assert_eq!(zero, "--communities-top 0: expected at least 1");
    }

    #[test]
    fn repeated_labels_take_no_memory_and_too_many_are_refused() {
        let observer = Recorder::default();
        let context = Context { threads: 1, memory: 4 << 20, seed: 0, observer: &observer };
        let path = Path::new("labels.csv");
        let mut pairs = Pairs::new(&context, &Consecutive(1000), path).unwrap();
        for row in 0..3_000_000 {
            pairs.push(row % 1000, row % 7).unwrap();
        }
        assert!(pairs.pairs.capacity() < 1 << 17, "{}", pairs.pairs.capacity());
        assert_eq!(pairs.finish().len(), 7000);

        let mut pairs = Pairs::new(&context, &Consecutive(1000), path).unwrap();
        let refused = (0..3_000_000).find_map(|row| pairs.push(row % 1000, row / 1000).err());
        assert_eq!(
            refused.unwrap().to_string(),
            "labels.csv: the labels need 3 MiB or more, but at most 2 MiB may be used for that: \
             raise --memory"
        );
        let many = Pairs::new(&context, &Consecutive(1 << 32), path).err().unwrap().to_string();
        assert!(many.starts_with("labels.csv: the labels need 32768 MiB or more"), "{many}");
    }

    /// The shared data, or `None` if it is not available.
    fn shared(file: &str) -> Option<std::path::PathBuf> {
        let root = std::env::var_os("IGNN_SHARED").map_or_else(
            || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared"),
            std::path::PathBuf::from,
        );
        let path = root.join(file);
        if !path.exists() {
            eprintln!("skipped: {file} not found; set IGNN_SHARED to the directory that has it");
        }
        path.exists().then_some(path)
    }

    #[test]
    fn top_communities_of_com_dblp() {
        let Some(path) = shared("data/com-dblp/com-dblp.all.cmty.txt.gz") else { return };
        let observer = Recorder::default();
        let context = Context { threads: 1, memory: 1 << 30, seed: 0, observer: &observer };
        let labels =
            from_communities(&context, &Consecutive(430_000), &path, CommunityChoice::Top(58))
                .unwrap();
        let Labels::Multi { classes, offsets, .. } = labels else { panic!("communities are sets") };
        assert_eq!(classes.len(), 58);
        assert_eq!(offsets.windows(2).filter(|pair| pair[0] < pair[1]).count(), 107_639);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = with(&bytes, |context, path| from_table(context, &Consecutive(4), path));
        }

        #[test]
        fn arbitrary_tables_do_not_panic(text in "[0-4,\" \t\n\r#a-c]{0,60}") {
            let _ = table(&text);
            let _ = cmty(&text, CommunityChoice::Top(2));
        }
    }
}
