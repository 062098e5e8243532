//! Splits of the nodes into named parts, read from a table or drawn at random. `ignn-format` writes
//! them.

use std::collections::HashMap;
use std::path::Path;

use ignn_format::labels::Labels;
use ignn_format::names::valid_name;
use ignn_format::splits::{NO_PART, Split};

use crate::context::{Context, Unit};
use crate::error::{IngestError, Result, quoted};
use crate::node_set::NodeSet;
use crate::nodes::NodeLookup;
use crate::source::table::{Batch, ColumnKind, MissingTexts, Table};
use ignn_format::random::Sequence;

/// Name of a split without a name.
const DEFAULT: &str = "default";
/// Number of parts that a note shows.
const SHOWN_PARTS: usize = 5;
/// Names of columns that hold a split, so that masks beside them are one too many.
const SPLIT_NAMES: [&str; 5] = ["split", "splits", "part", "fold", "set"];
/// Maximum number of parts of a split.
const MAX_PARTS: usize = NO_PART as usize;

/// Reads a table. `node,split` is one split named "default"; `node,a,b` with a header has one split
/// per further column, with its name. A node whose cell is missing is in no part; each node appears
/// at most once.
///
/// Masks make one split named "default" instead: columns such as `train_mask`, `val_mask` and
/// `test_mask`, one per part, with true or false (or 1 or 0) for each node. Columns beside them are
/// ignored, with a note.
pub fn from_table(context: &Context, nodes: &dyn NodeLookup, path: &Path) -> Result<Vec<Split>> {
    let table = Table::open(path, nodes.kind(), false, context.memory / 4)?;
    let columns = table.value_columns();
    from_columns(context, nodes, table, columns)
}

/// The same from some columns of a table.
pub fn from_columns(
    context: &Context,
    nodes: &dyn NodeLookup,
    mut table: Table,
    mut columns: Vec<usize>,
) -> Result<Vec<Split>> {
    context.observer.phase("splits", None, Unit::Items("rows"));
    let allowed = context.memory / 4;
    table.require_id()?;
    let path = &table.path().to_path_buf();
    let masks = masks(&table, &columns)?;
    let header = |at: usize| table.names().map_or(String::new(), |names| names[at].clone());
    if let Some(masks) = &masks {
        let of_masks = |column: &usize| masks.iter().any(|mask| mask.column == *column);
        let others: Vec<String> =
            columns.iter().filter(|at| !of_masks(at)).map(|&at| table.column_name(at)).collect();
        let is_split = |at: &&usize| SPLIT_NAMES.contains(&&*header(**at).to_ascii_lowercase());
        if let Some(&at) = columns.iter().filter(|at| !of_masks(at)).find(is_split) {
            let what = format!(
                "masks beside {} (expected either a split or masks): remove what is not meant",
                table.column_name(at)
            );
            return Err(IngestError::file(path, what));
        }
        if !others.is_empty() {
            let (path, others) = (path.display(), others.join(", "));
            context.observer.note(&format!("{path}: ignored beside the masks: {others}"));
        }
        columns.retain(of_masks);
    }
    let headers: Vec<String> = columns.iter().map(|&at| header(at)).collect();
    let names = match masks {
        Some(_) => vec![DEFAULT.into()],
        None => split_names(&table, &columns)?,
    };
    use ColumnKind::{Boolean, Float, Integer, Text};
    for &column in &columns {
        table.require(
            column,
            &[Text, Integer, Float, Boolean],
            "parts: text such as train, val, test",
        )?;
    }
    let needs = nodes.nodes().saturating_mul(names.len() as u64);
    if needs > allowed {
        let what = format!("{} splits of {} nodes", names.len(), nodes.nodes());
        return Err(IngestError::memory(path, &what, needs, allowed));
    }
    let mut splits: Vec<Gathered> =
        names.into_iter().map(|name| Gathered::new(name, nodes.nodes())).collect();
    let mut seen = NodeSet::new(nodes.nodes());
    let mut missing = vec![MissingTexts::default(); splits.len()];
    while let Some(batch) = table.next_batch()? {
        for row in 0..batch.rows() {
            let node = table.new_node(&batch, row, nodes, &mut seen)?;
            if let Some(masks) = &masks {
                assign_by_masks(&mut splits[0], node, masks, &table, &batch, row)?;
                continue;
            }
            for ((split, &column), missing) in splits.iter_mut().zip(&columns).zip(&mut missing) {
                let Some(part) = missing.value(batch.cell(row, column)) else { continue };
                if !split.assign(node, &part) {
                    let expected = format!("at most {MAX_PARTS} different parts in a split");
                    return Err(table.error(batch.number(row), &expected, "one more"));
                }
            }
        }
        context.observer.advance(batch.rows() as u64);
    }
    for (missing, &column) in missing.iter().zip(&columns) {
        if let Some(note) = missing.note(&table, column, "in no part") {
            context.observer.note(&note);
        }
    }
    for (split, header) in splits.iter().zip(&headers) {
        if split.parts.is_empty() {
            return Err(IngestError::file(path, format!("split {:?} has no nodes", split.name)));
        }
        // Numbers may be those of folds, but not in a column with the name of a part.
        let may_be_folds = masks.is_none() && Role::of(header) == Role::Other;
        let is_truth =
            |part: &String| truth(part).is_some() && !(may_be_folds && part.parse::<u8>().is_ok());
        if split.parts.iter().all(is_truth) {
            let parts: Vec<_> = split.parts.iter().map(|part| quoted(part.as_bytes())).collect();
            let what = format!(
                "split {:?} has only the parts {} (expected names of parts, such as train, val and \
                 test, or one column per part, named train_mask, val_mask and test_mask)",
                split.name,
                parts.join(" and ")
            );
            return Err(IngestError::file(path, what));
        }
    }
    for split in &splits {
        if !split.parts.iter().any(|part| Role::of(part) == Role::Train) {
            let shown: Vec<_> = split.parts.iter().take(SHOWN_PARTS).map(String::as_str).collect();
            let more = if split.parts.len() > SHOWN_PARTS { ", ..." } else { "" };
            context.observer.note(&format!(
                "{}: split {:?} has no part named train (its parts: {}{more}): is this a table of \
                 splits? If it is, train with --set train.train_part=PART",
                path.display(),
                split.name,
                quoted(shown.join(", ").as_bytes())
            ));
        }
    }
    Ok(splits.into_iter().map(Gathered::finish).collect())
}

/// The part to train on of the split named "default", or of the first one: the number of the part.
pub fn training_part(splits: &[Split]) -> Option<(&Split, u8)> {
    let split = splits.iter().find(|split| split.name == DEFAULT).or(splits.first())?;
    let part = split.parts.iter().position(|part| Role::of(part) == Role::Train)?;
    Some((split, part as u8))
}

/// Whether these are the names of parts of a split: train, validation and test, or the like.
pub fn are_parts(names: &[String]) -> bool {
    names.iter().all(|name| Role::of(name) != Role::Other)
}

/// Whether a column of this name is the mask of a part.
pub fn is_mask(column: &str) -> bool {
    mask_part(column).is_some_and(|part| Role::of(part) != Role::Other)
}

/// A column of a mask, and its part.
struct Mask {
    column: usize,
    part: String,
}

/// The part that the name of a column such as `train_mask` is the mask of.
fn mask_part(name: &str) -> Option<&str> {
    const ENDING: &str = "_mask";
    let at = name.len().checked_sub(ENDING.len()).filter(|&at| name.is_char_boundary(at))?;
    let (part, ending) = name.split_at(at);
    (ending.eq_ignore_ascii_case(ENDING) && !part.is_empty()).then_some(part)
}

/// The masks of a table: columns named `PART_mask`; or all columns besides the ids, if there are
/// several and they have the names of parts. `None` if the columns are splits.
fn masks(table: &Table, columns: &[usize]) -> Result<Option<Vec<Mask>>> {
    let no_ids = |names: &[String]| {
        let what = format!(
            "no column of node ids (found: {}): add one named \"node\" beside the masks",
            quoted(names.join(", ").as_bytes())
        );
        IngestError::file(table.path(), what)
    };
    let Some(names) = table.names() else {
        // Where ids are text, a first line without "node" counts as data.
        let first = table.first_row();
        let masks = first.iter().filter(|name| mask_part(name).is_some()).count();
        return if masks > 1 && masks + 1 >= first.len() { Err(no_ids(first)) } else { Ok(None) };
    };
    if let Some(id) = table.id_column()
        && mask_part(&names[id]).is_some()
    {
        return Err(no_ids(names));
    }
    let mut of_masks: Vec<usize> =
        columns.iter().copied().filter(|&at| mask_part(&names[at]).is_some()).collect();
    if of_masks.is_empty()
        && columns.len() > 1
        && columns.iter().all(|&at| Role::of(&names[at]) != Role::Other)
    {
        of_masks = columns.to_vec();
    }
    if of_masks.is_empty() {
        return Ok(None);
    }
    let mut masks: Vec<Mask> = Vec::new();
    for column in of_masks {
        let part = mask_part(&names[column]).unwrap_or(&names[column]).to_string();
        if let Some(other) = masks.iter().find(|mask| mask.part.eq_ignore_ascii_case(&part)) {
            let what = format!("two masks of part {:?}", other.part);
            return Err(IngestError::file(table.path(), what));
        }
        masks.push(Mask { column, part });
    }
    Ok(Some(masks))
}

/// Assigns a node to the part whose mask is true.
fn assign_by_masks(
    split: &mut Gathered,
    node: u32,
    masks: &[Mask],
    table: &Table,
    batch: &Batch,
    row: usize,
) -> Result<()> {
    let mut found: Option<&Mask> = None;
    for mask in masks {
        let cell = batch.cell(row, mask.column);
        let Some(text) = cell.text().filter(|_| !cell.is_missing()) else { continue };
        let wrong = |expected: &str, found: String| table.error(batch.number(row), expected, found);
        match (truth(&text), found) {
            (None, _) => {
                let expected = format!("true, false, 1 or 0 in the mask of {:?}", mask.part);
                return Err(wrong(&expected, cell.shown()));
            }
            (Some(true), Some(other)) => {
                let both = format!("{:?} and {:?}", other.part, mask.part);
                return Err(wrong("each node in one part at most", both));
            }
            (Some(true), None) => found = Some(mask),
            (Some(false), _) => {}
        }
    }
    match found {
        Some(mask) if !split.assign(node, &mask.part) => {
            let expected = format!("at most {MAX_PARTS} different parts in a split");
            Err(table.error(batch.number(row), &expected, "one more"))
        }
        _ => Ok(()),
    }
}

/// Whether a cell of a mask is true.
fn truth(text: &str) -> Option<bool> {
    match text {
        "1" | "1.0" => Some(true),
        "0" | "0.0" => Some(false),
        _ if text.eq_ignore_ascii_case("true") => Some(true),
        _ if text.eq_ignore_ascii_case("false") => Some(false),
        _ => None,
    }
}

fn split_names(table: &Table, columns: &[usize]) -> Result<Vec<String>> {
    match (columns, table.names()) {
        ([], _) => Err(IngestError::file(
            table.path(),
            "expected at least two columns, node and split; found 1",
        )),
        ([_], _) => Ok(vec![DEFAULT.into()]),
        (_, None) => {
            let what = format!(
                "{} columns and no header (expected a first line like node,split1,split2)",
                columns.len() + 1
            );
            Err(IngestError::file(table.path(), what))
        }
        (_, Some(names)) => {
            let names: Vec<String> = columns.iter().map(|&column| names[column].clone()).collect();
            for (at, name) in names.iter().enumerate() {
                if !valid_name(name) {
                    let what =
                        format!("split named {} (expected {NAME_RULE})", quoted(name.as_bytes()));
                    return Err(IngestError::file(table.path(), what));
                }
                if names[..at].contains(name) {
                    return Err(IngestError::file(
                        table.path(),
                        format!("two splits named {name:?}"),
                    ));
                }
            }
            Ok(names)
        }
    }
}

const NAME_RULE: &str = "at most 64 letters, digits, '-', '_' and '.'";

/// A split being read, with its parts in the order of their first appearance.
struct Gathered {
    name: String,
    parts: Vec<String>,
    known: HashMap<String, u8>,
    of: Vec<u8>,
}

impl Gathered {
    fn new(name: String, nodes: u64) -> Self {
        Self { name, parts: Vec::new(), known: HashMap::new(), of: vec![NO_PART; nodes as usize] }
    }

    /// Returns false if there are too many parts.
    fn assign(&mut self, node: u32, part: &str) -> bool {
        let index = match self.known.get(part) {
            Some(&index) => index,
            None if self.parts.len() == MAX_PARTS => return false,
            None => {
                let index = self.parts.len() as u8;
                self.parts.push(part.into());
                self.known.insert(part.into(), index);
                index
            }
        };
        self.of[node as usize] = index;
        true
    }

    /// Puts the parts in order: train, validation, test, then the others by first appearance.
    fn finish(self) -> Split {
        let Self { name, mut parts, mut of, .. } = self;
        let mut order: Vec<usize> = (0..parts.len()).collect();
        order.sort_by_key(|&part| Role::of(&parts[part]) as u8);
        let mut rank = [NO_PART; NO_PART as usize + 1];
        for (position, &part) in order.iter().enumerate() {
            rank[part] = position as u8;
        }
        for part in &mut of {
            *part = rank[*part as usize];
        }
        let parts = order.iter().map(|&part| std::mem::take(&mut parts[part])).collect();
        Split { name, parts, of }
    }
}

/// The role of a part, by its name; in the order in which parts are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Train,
    Validation,
    Test,
    Other,
}

impl Role {
    fn of(name: &str) -> Self {
        match name.to_ascii_lowercase().as_str() {
            "train" | "training" => Self::Train,
            "val" | "valid" | "validation" | "dev" => Self::Validation,
            "test" | "testing" => Self::Test,
            _ => Self::Other,
        }
    }
}

/// The share of the nodes in a part.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Share {
    Fraction(f64),
    Count(u64),
    Rest,
}

/// A split to draw.
#[derive(Debug, PartialEq)]
struct Draw {
    name: String,
    parts: Vec<(String, Share)>,
}

/// Rejects splits that cannot be drawn for any nodes: not of the form `[NAME:]PART=SHARE,...`, or
/// with a repeated name.
pub fn check(specs: &[String]) -> Result<()> {
    parse(specs).map(drop)
}

fn parse(specs: &[String]) -> Result<Vec<Draw>> {
    let mut draws: Vec<Draw> = Vec::new();
    for spec in specs {
        let draw = Draw::parse(spec).map_err(|what| usage(spec, &what))?;
        if draws.iter().any(|other| other.name == draw.name) {
            let name = &draw.name;
            let what = format!(
                "a second split named {name:?}: name them, as in a:train=0.05 b:train=0.06"
            );
            return Err(usage(spec, &what));
        }
        draws.push(draw);
    }
    Ok(draws)
}

/// Draws splits `[NAME:]PART=SHARE,...` over the labelled nodes, or over all nodes if there are no
/// labels. A share is a fraction (`0.06`), a count (`140`) or `rest`.
///
/// The nodes are shuffled once for all splits, and each split takes them from the front: test
/// first, then validation, then the other parts as written, `rest` last. Splits that differ only in
/// their train share therefore have the same test nodes, and their train sets are nested. The
/// result depends on the seed and on the order of the ids. A reordering of the nodes does not
/// change it: `position` has the new number of each node.
pub fn draw(
    specs: &[String],
    labels: Option<&Labels>,
    nodes: u64,
    position: Option<&[u32]>,
    seed: u64,
) -> Result<Vec<Split>> {
    let labelled = |node: u32| labels.is_none_or(|labels| labels.is_labelled(node as usize));
    let placed = |node: u32| position.map_or(node, |position| position[node as usize]);
    let mut shuffled: Vec<u32> =
        (0..nodes as u32).map(placed).filter(|&node| labelled(node)).collect();
    let of_what = if labels.is_some() { "labelled nodes" } else { "nodes" };
    Sequence::new(seed, "split").shuffle(&mut shuffled);
    let take = |(draw, spec): (&Draw, &String)| {
        draw.take(&shuffled, nodes, of_what).map_err(|what| usage(spec, &what))
    };
    parse(specs)?.iter().zip(specs).map(take).collect()
}

fn usage(spec: &str, what: &str) -> IngestError {
    let example = "[NAME:]train=0.06,val=500,test=rest";
    IngestError::Usage(format!(
        "split {}: {what} (expected a split like {example})",
        quoted(spec.as_bytes())
    ))
}

impl Draw {
    fn parse(spec: &str) -> Result<Self, String> {
        let (name, list) = match spec.split_once(':') {
            Some((name, list)) => (name, list),
            None => (DEFAULT, spec),
        };
        if !valid_name(name) {
            return Err(format!("name {name:?} is not {NAME_RULE}"));
        }
        let mut parts: Vec<(String, Share)> = Vec::new();
        for part in list.split(',') {
            let Some((part, share)) = part.split_once('=') else {
                return Err(format!("{part:?} is not PART=SHARE"));
            };
            let part = part.trim();
            if part.is_empty() {
                return Err("a part without a name".into());
            }
            if parts.iter().any(|(known, _)| known == part) {
                return Err(format!("part {part:?} is given twice"));
            }
            let share = Share::parse(share.trim()).ok_or_else(|| {
                format!(
                    "{:?} is not a fraction between 0.0 and 1.0, a count or \"rest\"",
                    share.trim()
                )
            })?;
            if share == Share::Rest && parts.iter().any(|(_, known)| *known == Share::Rest) {
                return Err("\"rest\" is given twice".into());
            }
            parts.push((part.into(), share));
        }
        if parts.len() > MAX_PARTS {
            return Err(format!("{} parts (at most {MAX_PARTS})", parts.len()));
        }
        let fractions: f64 = parts.iter().map(|(_, share)| share.fraction()).sum();
        if fractions > 1.0 + 1e-9 {
            return Err(format!("the fractions sum to {fractions:.4}, more than 1"));
        }
        Ok(Self { name: name.into(), parts })
    }

    /// Assigns nodes from the front of `shuffled` to the parts.
    fn take(&self, shuffled: &[u32], nodes: u64, of_what: &str) -> Result<Split, String> {
        let mut turns: Vec<&(String, Share)> = self.parts.iter().collect();
        turns.sort_by_key(|(part, share)| match (share, Role::of(part)) {
            (Share::Rest, _) => 3,
            (_, Role::Test) => 0,
            (_, Role::Validation) => 1,
            _ => 2,
        });
        let total = shuffled.len() as u64;
        let mut split = Gathered::new(self.name.clone(), nodes);
        // Parts are listed as in the spec, whatever the order of drawing.
        for (part, _) in &self.parts {
            split.known.insert(part.clone(), split.parts.len() as u8);
            split.parts.push(part.clone());
        }
        let (mut fractions, mut counts, mut start) = (0.0, 0u64, 0u64);
        for (part, share) in turns {
            // Ends are rounded, not lengths, so that fractions that sum to 1 cover all nodes.
            fractions += share.fraction();
            if let Share::Count(count) = share {
                counts = counts.saturating_add(*count);
            }
            let end = match share {
                Share::Rest => total,
                _ => counts.saturating_add((fractions * total as f64).round() as u64),
            };
            if end > total {
                return Err(format!("the parts need {end} nodes, but there are {total} {of_what}"));
            }
            if end <= start {
                return Err(format!("part {part:?} would be empty: there are {total} {of_what}"));
            }
            for &node in &shuffled[start as usize..end as usize] {
                split.assign(node, part);
            }
            start = end;
        }
        Ok(split.finish())
    }
}

impl Share {
    fn parse(text: &str) -> Option<Self> {
        if text == "rest" {
            return Some(Self::Rest);
        }
        if let Ok(count) = text.parse::<u64>() {
            return (count > 0).then_some(Self::Count(count));
        }
        let fraction: f64 = text.parse().ok()?;
        (fraction > 0.0 && fraction <= 1.0).then_some(Self::Fraction(fraction))
    }

    fn fraction(self) -> f64 {
        if let Self::Fraction(fraction) = self { fraction } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::Recorder;
    use crate::nodes::Consecutive;
    use ignn_format::ids::IdKind;
    use proptest::prelude::*;

    fn table(bytes: &[u8]) -> Result<Vec<Split>, String> {
        table_of(&Consecutive(4), bytes).map(|(splits, _)| splits)
    }

    /// The splits, and the notes about them.
    fn table_of(nodes: &dyn NodeLookup, bytes: &[u8]) -> Result<(Vec<Split>, Vec<String>), String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("splits.csv");
        std::fs::write(&path, bytes).unwrap();
        let observer = Recorder::default();
        let context = Context { threads: 1, memory: 1 << 20, seed: 0, observer: &observer };
        let short = |text: &str| text.replace(&format!("{}/", dir.path().display()), "");
        let splits = from_table(&context, nodes, &path).map_err(|error| short(&error.to_string()));
        splits.map(|splits| (splits, observer.notes().iter().map(|note| short(note)).collect()))
    }

    fn drawn(specs: &[&str], labels: Option<&Labels>, nodes: u64) -> Result<Vec<Split>, String> {
        let specs: Vec<String> = specs.iter().map(|&spec| spec.into()).collect();
        draw(&specs, labels, nodes, None, 1).map_err(|error| error.to_string())
    }

    fn members(split: &Split, part: &str) -> Vec<usize> {
        let index = split.parts.iter().position(|name| name == part).unwrap() as u8;
        (0..split.of.len()).filter(|&node| split.of[node] == index).collect()
    }

    #[test]
    fn one_split_and_several() {
        let splits = table(b"node,split\n2,unused\n3,test\n0,dev\n1,train\n").unwrap();
        assert_eq!(splits.len(), 1);
        assert_eq!(splits[0].name, "default");
        assert_eq!(splits[0].parts, ["train", "dev", "test", "unused"]);
        assert_eq!(splits[0].of, [1, 0, 3, 2]);
        let splits = table(b"node\tfold0\tfold1\n0\ttrain\t\n1\t\ttest\n").unwrap();
        let of: Vec<_> =
            splits.iter().map(|split| (split.name.as_str(), split.of.clone())).collect();
        assert_eq!(of, [("fold0", vec![0, 255, 255, 255]), ("fold1", vec![255, 0, 255, 255])]);
    }

    #[test]
    fn masks_make_one_split() {
        let expected = table(b"node,split\n0,train\n1,val\n2,test\n").unwrap();
        for text in [
            "node,train_mask,val_mask,test_mask\n0,True,False,False\n1,False,True,False\n\
             2,False,False,True\n3,False,False,False\n",
            "test\tval\ttrain\tid\n0\t0\t1\t0\n0\t1\t0\t1\n1\t0\t0\t2\n",
            "node,Train_Mask,val_mask,test_mask\n2,0,,1.0\n0,1,0,0\n1,false,TRUE,\n",
        ] {
            let splits = table(text.as_bytes()).unwrap();
            let parts: Vec<_> =
                splits[0].parts.iter().map(|part| part.to_ascii_lowercase()).collect();
            assert_eq!((splits.len(), &splits[0].name), (1, &expected[0].name), "{text}");
            assert_eq!((&parts, &splits[0].of), (&expected[0].parts, &expected[0].of), "{text}");
        }
        let only = table(b"node,train_mask\n0,1\n1,0\n").unwrap();
        assert_eq!((&only[0].parts[..], &only[0].of[..2]), (&["train".into()][..], &[0, 255][..]));
    }

    #[test]
    fn columns_beside_masks_are_ignored_with_a_note() {
        let text = "node,train_mask,label,test_mask\n0,1,red,0\n1,0,blue,1\n";
        let (splits, notes) = table_of(&Consecutive(4), text.as_bytes()).unwrap();
        assert_eq!(splits, table(b"node,split\n0,train\n1,test\n").unwrap());
        assert_eq!(notes, ["splits.csv: ignored beside the masks: column \"label\""]);
    }

    #[test]
    fn labels_instead_of_splits_get_a_note() {
        let (_, notes) = table_of(&Consecutive(4), b"node,label\n0,red\n1,blue\n").unwrap();
        assert_eq!(
            notes,
            [
                "splits.csv: split \"default\" has no part named train (its parts: \"red, blue\"): is \
              this a table of splits? If it is, train with --set train.train_part=PART"
            ]
        );
        let (_, notes) = table_of(&Consecutive(4), b"node,split\n0,training\n").unwrap();
        assert!(notes.is_empty(), "{notes:?}");
    }

    #[test]
    fn masks_without_ids_are_not_taken_for_a_missing_header() {
        struct Names;
        impl NodeLookup for Names {
            fn nodes(&self) -> u64 {
                2
            }

            fn kind(&self) -> IdKind {
                IdKind::String
            }

            fn find_integer(&self, _: u64) -> Result<Option<u32>> {
                Ok(None)
            }

            fn find_string(&self, id: &str) -> Result<Option<u32>> {
                Ok(["a", "b"].iter().position(|name| *name == id).map(|at| at as u32))
            }
        }
        for names in ["train_mask,val_mask,test_mask", "person,train_mask,test_mask"] {
            let error = table_of(&Names, format!("{names}\na,1,0\n").as_bytes()).unwrap_err();
            let found = names.replace(',', ", ");
            let expected = format!(
                "splits.csv: no column of node ids (found: \"{found}\"): add one named \"node\" \
                 beside the masks"
            );
            assert_eq!(error, expected);
        }
    }

    #[test]
    fn malformed_tables_have_exact_messages() {
        let cases: [(&str, &str); 20] = [
            (
                "node,split,train_mask\n0,train,1\n1,test,0\n",
                "splits.csv: masks beside column \"split\" (expected either a split or masks): remove \
                 what is not meant",
            ),
            (
                "node,train\n0,1\n1,0\n",
                "splits.csv: split \"default\" has only the parts \"1\" and \"0\" (expected names \
                 of parts, such as train, val and test, or one column per part, named train_mask, \
                 val_mask and test_mask)",
            ),
            ("node,train_mask,Train_mask\n0,1,0\n", "splits.csv: two masks of part \"train\""),
            (
                "node,train_mask,val_mask\n0,True,False\n1,True,True\n",
                "splits.csv:3: expected each node in one part at most, found \"train\" and \"val\"",
            ),
            (
                "node,train_mask,val_mask\n0,yes,no\n",
                "splits.csv:2: expected true, false, 1 or 0 in the mask of \"train\", found \"yes\"",
            ),
            (
                "train_mask,val_mask,test_mask\nTrue,False,False\n",
                "splits.csv: no column of node ids (found: \"train_mask, val_mask, test_mask\"): add \
                 one named \"node\" beside the masks",
            ),
            (
                "node,a_mask,b,a_mask\n0,1,0,0\n",
                "splits.csv: two columns named \"a_mask\" (expected a name of its own for each)",
            ),
            ("node,a_mask,a_MASK\n0,1,0\n", "splits.csv: two masks of part \"a\""),
            (
                "node,train,test,colour\n0,1,0,red\n1,0,1,blue\n",
                "splits.csv: split \"train\" has only the parts \"1\" and \"0\" (expected names \
                 of parts, such as train, val and test, or one column per part, named train_mask, \
                 val_mask and test_mask)",
            ),
            ("node,train_mask,val_mask\n0,0,0\n", "splits.csv: split \"default\" has no nodes"),
            (
                "node,is_train\n0,True\n1,False\n",
                "splits.csv: split \"default\" has only the parts \"True\" and \"False\" (expected names \
                 of parts, such as train, val and test, or one column per part, named train_mask, \
                 val_mask and test_mask)",
            ),
            (
                "node,split\n1,train\n2,test\n1,test\n",
                "splits.csv:4: expected each node once, found \"1\" again (first on line 2)",
            ),
            (
                "node,split\n9,train\n",
                "splits.csv:2: expected the id of a node of the graph, found \"9\" (unknown: if it is a \
             node without edges, list all nodes with --nodes-file)",
            ),
            ("0\n", "splits.csv: expected at least two columns, node and split; found 1"),
            (
                "0,a,b\n",
                "splits.csv: 3 columns and no header (expected a first line like \
                 node,split1,split2)",
            ),
            (
                "node,a,a\n0,x,y\n",
                "splits.csv: two columns named \"a\" (expected a name of its own for each)",
            ),
            (
                "node;split\n0;train\n",
                "splits.csv:1: expected columns separated by commas, tabs or blanks, found \
                 semicolons: \"node;split\"",
            ),
            (
                "node,a,b c\n0,x,y\n",
                "splits.csv: split named \"b c\" (expected at most 64 letters, digits, '-', '_' \
                 and '.')",
            ),
            ("node,a,b\n0,x,\n", "splits.csv: split \"b\" has no nodes"),
            ("", "splits.csv: no rows (expected one line per node)"),
        ];
        for (text, message) in cases {
            assert_eq!(table(text.as_bytes()).unwrap_err(), message, "{text:?}");
        }
    }

    #[test]
    fn draws_share_their_test_nodes_and_nest() {
        let specs =
            ["a:train=0.05,test=0.10", "b:train=0.09,test=0.10", "train=100,val=rest,test=0.1"];
        let splits = drawn(&specs, None, 1000).unwrap();
        assert_eq!(
            splits.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(),
            ["a", "b", "default"]
        );
        assert_eq!(splits[2].parts, ["train", "val", "test"]);
        let sizes: Vec<_> =
            splits[2].parts.iter().map(|part| members(&splits[2], part).len()).collect();
        assert_eq!(sizes, [100, 800, 100]);
        assert_eq!(members(&splits[0], "test"), members(&splits[1], "test"));
        assert_eq!(members(&splits[0], "test"), members(&splits[2], "test"));
        let (small, large) = (members(&splits[0], "train"), members(&splits[1], "train"));
        assert_eq!((small.len(), large.len()), (50, 90));
        assert!(small.iter().all(|node| large.contains(node)));
        assert_eq!(splits, drawn(&specs, None, 1000).unwrap());
    }

    #[test]
    fn only_labelled_nodes_are_drawn() {
        let labels = Labels::Single { classes: vec!["x".into()], of: vec![-1, 0, -1, 0, 0, -1] };
        let split = drawn(&["train=0.5,test=0.5"], Some(&labels), 6).unwrap().remove(0);
        assert!([0, 2, 5].iter().all(|&node| split.of[node] == NO_PART));
        assert_eq!(members(&split, "train").len() + members(&split, "test").len(), 3);
        let labels = Labels::sets(vec!["x".into()], vec![0, 0, 1], vec![0]);
        assert_eq!(drawn(&["train=rest"], Some(&labels), 2).unwrap()[0].of, [NO_PART, 0]);
    }

    #[test]
    fn bad_draws_have_exact_messages() {
        let like = "(expected a split like [NAME:]train=0.06,val=500,test=rest)";
        let cases = [
            (&["train"][..], "split \"train\": \"train\" is not PART=SHARE"),
            (&["=1"], "split \"=1\": a part without a name"),
            (
                &["train=2.5"],
                "split \"train=2.5\": \"2.5\" is not a fraction between 0.0 and 1.0, a count or \
                 \"rest\"",
            ),
            (
                &["a=0"],
                "split \"a=0\": \"0\" is not a fraction between 0.0 and 1.0, a count or \"rest\"",
            ),
            (
                &["a=nan"],
                "split \"a=nan\": \"nan\" is not a fraction between 0.0 and 1.0, a count or \
                 \"rest\"",
            ),
            (&["a=0.6,b=0.5"], "split \"a=0.6,b=0.5\": the fractions sum to 1.1000, more than 1"),
            (
                &["a=9,b=0.5"],
                "split \"a=9,b=0.5\": the parts need 14 nodes, but there are 10 nodes",
            ),
            (&["a=0.01"], "split \"a=0.01\": part \"a\" would be empty: there are 10 nodes"),
            (
                &["a=10,b=rest"],
                "split \"a=10,b=rest\": part \"b\" would be empty: there are 10 nodes",
            ),
            (&["a=rest,b=rest"], "split \"a=rest,b=rest\": \"rest\" is given twice"),
            (&["a=1,a=1"], "split \"a=1,a=1\": part \"a\" is given twice"),
            (
                &["a=1", "b=1"],
                "split \"b=1\": a second split named \"default\": name them, as in a:train=0.05 \
                 b:train=0.06",
            ),
            (
                &["a b:x=1"],
                "split \"a b:x=1\": name \"a b\" is not at most 64 letters, digits, '-', '_' and \
                 '.'",
            ),
        ];
        for (specs, message) in cases {
            assert_eq!(drawn(specs, None, 10).unwrap_err(), format!("{message} {like}"));
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            spec in ".{0,40}",
        ) {
            let _ = table(&bytes);
            let _ = drawn(&[&spec], None, 10);
        }

        #[test]
        fn arbitrary_specs_do_not_panic(spec in "[a-c:=,.0-9e-]{0,20}", nodes in 0u64..30) {
            let _ = drawn(&[&spec], None, nodes);
        }
    }
}
