//! Edge lists: one line per edge, two or more columns, separated by blanks, tabs or commas. This
//! module detects the layout and parses blocks of text.
//!
//! In lists with tabs or commas, a cell may be quoted as in RFC 4180: `"a, b"`, `"the ""best"""`.
//! It must end on the same line. Lists with blanks have no quoted cells.

use std::borrow::Cow;
use std::path::Path;

use ignn_format::nearest::nearest;

use crate::error::{IngestError, Result, quoted};
use crate::source::edge_input::{EdgeInput, IdChoice};
use crate::source::text;

/// The separator of columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Separator {
    /// Any run of spaces and tabs.
    Blank,
    /// One tab; cells may be quoted.
    Tab,
    /// One comma; blanks around it are ignored, and cells may be quoted.
    Comma,
}

/// The layout of a line.
#[derive(Clone, Debug, PartialEq)]
pub struct Layout {
    /// The separator of its columns.
    pub separator: Separator,
    /// Whether the first line that is not a comment is a header.
    pub header: bool,
    /// Column of the source.
    pub source: usize,
    /// Column of the target.
    pub target: usize,
    /// Column of the weight.
    pub weight: Option<usize>,
    /// Ids are integers.
    pub integer: bool,
    /// Guesses that may be wrong, for notes to the user.
    pub guesses: Vec<String>,
    /// How the columns are read, for people.
    pub words: String,
    /// Columns of the first line.
    columns: usize,
}

/// An error in a line, with its offset in the block.
#[derive(Debug)]
pub struct BadLine {
    /// Start of the line in the block.
    pub at: usize,
    /// What should be there.
    pub expected: String,
    /// What is there.
    pub found: String,
}

/// What is expected where an id is not one of the nodes. See
/// [`NodeList::explain`](crate::relabel::index::NodeList::explain).
pub const LISTED: &str = "a node of the node list";

/// The answer of the receiver of an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// The edge was taken.
    Taken,
    /// This receiver cannot take such ids: stop.
    Full,
    /// The source is not in the list of nodes.
    UnknownSource,
    /// The target is not in the list of nodes.
    UnknownTarget,
}

/// An id as it is in a file.
pub trait Key<'a>: Copy + Send {
    /// Whether any text is an id.
    const IS_TEXT: bool;

    /// Parses a token.
    fn parse(token: &'a [u8]) -> Result<Self, &'static str>;
}

/// What an integer id must be.
const INTEGER: &str =
    "an integer id from 0 to 18446744073709551615 (pass --ids string if ids are text)";
/// The same for digits with leading zeros: as integers, 007 and 7 would be the same node.
const UNPADDED: &str = "an integer id without leading zeros (pass --ids string if ids are text)";

impl<'a> Key<'a> for u64 {
    const IS_TEXT: bool = false;

    fn parse(token: &'a [u8]) -> Result<Self, &'static str> {
        let mut at = 0;
        match integer(token, &mut at) {
            Some(_) if at == token.len() && is_padded(token) => Err(UNPADDED),
            Some(value) if at == token.len() => Ok(value),
            _ => Err(INTEGER),
        }
    }
}

impl<'a> Key<'a> for &'a str {
    const IS_TEXT: bool = true;

    fn parse(token: &'a [u8]) -> Result<Self, &'static str> {
        match std::str::from_utf8(token) {
            Ok("") => Err("an id"),
            Ok(text) => Ok(text),
            Err(_) => Err("an id in UTF-8"),
        }
    }
}

/// Whether digits have a leading zero; a single `0` has none.
#[inline]
fn is_padded(digits: &[u8]) -> bool {
    digits.len() > 1 && digits[0] == b'0'
}

/// Parses digits, starting at `at`; `None` if there are none or the number exceeds 64 bits.
#[inline]
fn integer(bytes: &[u8], at: &mut usize) -> Option<u64> {
    if let Some(eight) = bytes.get(*at..*at + 8) {
        let (digits, value) =
            up_to_eight_digits(u64::from_le_bytes(eight.try_into().expect("eight bytes")));
        if digits < 8 {
            *at += digits as usize;
            return (digits > 0).then_some(value);
        }
    }
    any_integer(bytes, at)
}

/// The number of leading digits among eight bytes and their value, computed without a loop.
#[inline]
fn up_to_eight_digits(eight: u64) -> (u32, u64) {
    let values = eight ^ 0x3030_3030_3030_3030;
    // The high bit of each byte above 9; a carry only affects bytes after the first such byte.
    let others = (values.wrapping_add(0x7676_7676_7676_7676) | values) & 0x8080_8080_8080_8080;
    let digits = others.trailing_zeros() / 8;
    // Pads with leading zeros, then combines digits to pairs, fours and eight, each in one
    // multiplication.
    let padded = if digits == 0 { 0 } else { values << (64 - 8 * digits) };
    let pairs = (padded.wrapping_mul(10) + (padded >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs.wrapping_mul(100) + (pairs >> 16)) & 0x0000_ffff_0000_ffff;
    (digits, (fours.wrapping_mul(10_000) + (fours >> 32)) & 0xffff_ffff)
}

/// The same byte by byte, for any length.
fn any_integer(bytes: &[u8], at: &mut usize) -> Option<u64> {
    const SAFE_DIGITS: usize = 19;
    let start = *at;
    let mut value = 0u64;
    while let Some(digit) =
        bytes.get(*at).map(|byte| byte.wrapping_sub(b'0')).filter(|&digit| digit <= 9)
    {
        value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
        *at += 1;
    }
    if *at - start > SAFE_DIGITS {
        return std::str::from_utf8(&bytes[start..*at]).ok()?.parse().ok();
    }
    (*at > start).then_some(value)
}

/// A weight: finite and not negative.
pub fn parse_weight(token: &[u8]) -> Result<f32, &'static str> {
    check_weight(
        std::str::from_utf8(token).ok().and_then(|t| t.parse().ok()).ok_or("a number as weight")?,
    )
}

/// A number as a weight.
pub fn check_weight(weight: f32) -> Result<f32, &'static str> {
    if weight.is_finite() && weight >= 0.0 {
        Ok(weight)
    } else {
        Err("a finite weight that is not negative")
    }
}

/// A cell of a line.
#[derive(Clone, Copy)]
struct Cell<'a> {
    /// Without blanks around it, or without the quotes around it.
    text: &'a [u8],
    form: CellForm,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum CellForm {
    Plain,
    Quoted,
    /// Quoted, with doubled quotes inside; each of them stands for one.
    Doubled,
    /// A mistake in the quotes, with what should be there.
    Wrong(&'static str),
}

/// The columns of a line.
fn columns(line: &[u8], separator: Separator) -> Columns<'_> {
    Columns { rest: Some(line), separator }
}

struct Columns<'a> {
    rest: Option<&'a [u8]>,
    separator: Separator,
}

impl<'a> Iterator for Columns<'a> {
    type Item = Cell<'a>;

    fn next(&mut self) -> Option<Cell<'a>> {
        let rest = self.rest?;
        let blank = |byte: &u8| *byte == b' ' || *byte == b'\t';
        let plain = |text: &'a [u8]| Cell { text: text.trim_ascii(), form: CellForm::Plain };
        let separated = |separator: u8| {
            let is_before = |byte: &&u8| **byte != separator && blank(byte);
            let start = &rest[rest.iter().take_while(is_before).count()..];
            match start.strip_prefix(b"\"") {
                Some(quoted) => quoted_cell(quoted, separator),
                None => {
                    let (text, after) = cut(rest, separator);
                    (plain(text), after)
                }
            }
        };
        let (cell, after) = match self.separator {
            Separator::Blank => {
                let rest = rest.trim_ascii_start();
                let end = rest.iter().position(blank).unwrap_or(rest.len());
                let after = rest[end..].trim_ascii_start();
                (plain(&rest[..end]), (!after.is_empty()).then_some(after))
            }
            Separator::Tab => separated(b'\t'),
            Separator::Comma => separated(b','),
        };
        self.rest = after;
        Some(cell)
    }
}

/// A cell from after its opening quote, and what follows the separator after it.
fn quoted_cell(text: &[u8], separator: u8) -> (Cell<'_>, Option<&[u8]>) {
    let (mut at, mut form) = (0, CellForm::Quoted);
    loop {
        let Some(quote) = text[at..].iter().position(|&byte| byte == b'"') else {
            let form = CellForm::Wrong(text::CLOSING_QUOTE);
            return (Cell { text, form }, None);
        };
        at += quote + 1;
        if text.get(at) != Some(&b'"') {
            break;
        }
        (at, form) = (at + 1, CellForm::Doubled);
    }
    let (between, after) = cut(&text[at..], separator);
    if !between.trim_ascii().is_empty() {
        form = CellForm::Wrong(text::AFTER_QUOTE);
    }
    (Cell { text: &text[..at - 1], form }, after)
}

/// Text of a quoted cell, with every doubled quote replaced by one.
fn with_single_quotes(text: &[u8]) -> Vec<u8> {
    let mut single = Vec::with_capacity(text.len());
    let mut bytes = text.iter();
    while let Some(&byte) = bytes.next() {
        single.push(byte);
        if byte == b'"' {
            bytes.next();
        }
    }
    single
}

/// The texts of the cells with doubled quotes in a block, in order, for [`parse`]. Few lists have
/// any; all other ids are parsed in place.
pub fn unquoted(text: &[u8], layout: &Layout) -> Vec<Vec<u8>> {
    if layout.separator == Separator::Blank || !text.contains(&b'"') {
        return Vec::new();
    }
    let edges = lines(text).map(|(_, line)| line).filter(|line| !no_edge(line));
    let cells = edges.flat_map(|line| columns(line, layout.separator).take(layout.width()));
    cells
        .filter(|cell| cell.form == CellForm::Doubled)
        .map(|cell| with_single_quotes(cell.text))
        .collect()
}

/// The id on a line of its own, which may be quoted.
pub fn lone_id(line: &[u8]) -> Result<Cow<'_, [u8]>, &'static str> {
    let Some(text) = line.strip_prefix(b"\"") else {
        return if line.contains(&b'"') { Err(UNQUOTED) } else { Ok(line.into()) };
    };
    // A line of its own has no separator; byte 0 does not occur in text.
    let (cell, _) = quoted_cell(text, 0);
    match cell.form {
        CellForm::Wrong(expected) => Err(expected),
        CellForm::Doubled => Ok(with_single_quotes(cell.text).into()),
        CellForm::Plain | CellForm::Quoted => Ok(cell.text.into()),
    }
}

/// What an id in a plain cell must be.
const UNQUOTED: &str = "an id without quotes, or all of it in quotes and those inside doubled";
/// The same where blanks separate.
const BLANK_UNQUOTED: &str = "an id without quotes (only lists with commas or tabs may quote ids)";

fn cut(line: &[u8], separator: u8) -> (&[u8], Option<&[u8]>) {
    match line.iter().position(|&byte| byte == separator) {
        Some(at) => (&line[..at], Some(&line[at + 1..])),
        None => (line, None),
    }
}

/// Whether a line has no edge: it is empty or a comment.
fn no_edge(line: &[u8]) -> bool {
    matches!(line.trim_ascii_start().first(), None | Some(b'#' | b'%'))
}

/// Lines of a block with their offsets, without line ends.
fn lines(text: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let mut at = 0;
    text.split_inclusive(|&byte| byte == b'\n').map(move |line| {
        let start = at;
        at += line.len();
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        (start, line.strip_suffix(b"\r").unwrap_or(line))
    })
}

/// Number of ignored columns that [`words`] names.
const SHOWN_COLUMNS: usize = 5;
/// Lines from which a layout is detected.
pub const SAMPLE_LINES: usize = 1000;

/// The lines that are neither empty nor comments, with their numbers from 1.
pub fn sample(text: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    (1..).zip(lines(text).map(|(_, line)| line)).filter(|(_, line)| !no_edge(line))
}

impl Layout {
    /// Detects the layout from the first lines of a file, which follow `before` others, and the
    /// user's options.
    pub fn detect(path: &Path, text: &[u8], before: u64, input: &EdgeInput) -> Result<Self> {
        let (numbers, data): (Vec<u64>, Vec<&[u8]>) = sample(text).take(SAMPLE_LINES).unzip();
        let Some(first) = data.first() else {
            return Err(IngestError::file(path, "no edges (found only empty lines and comments)"));
        };
        let separates = |separator: u8| {
            let mut is_quoted = false;
            first.iter().any(|&byte| {
                is_quoted ^= byte == b'"';
                byte == separator && !is_quoted
            })
        };
        let separator = match () {
            () if separates(b',') => Separator::Comma,
            () if separates(b'\t') => Separator::Tab,
            () => Separator::Blank,
        };
        let cells = |line| columns(line, separator).map(|cell| cell.text).collect::<Vec<_>>();
        if separator == Separator::Blank
            && columns(first, separator).next().is_some_and(|cell| cell.text.contains(&b';'))
        {
            let (line, found) = (before + numbers[0], format!("semicolons: {}", quoted(first)));
            return Err(IngestError::line(path, line, text::SEPARATORS, found));
        }
        let names: Vec<String> = columns(first, separator).map(column_name).collect();
        let named = |known: &[&str]| names.iter().position(|name| known.contains(&name.as_str()));
        let asked = [&input.source, &input.target, &input.weight];
        // A number is the position of a column; a first line with that number is an edge.
        let is_named = |chosen: &String| {
            chosen.parse::<usize>().is_err() && names.contains(&chosen.to_ascii_lowercase())
        };
        let has_known_names = named(SOURCE_NAMES).is_some() && named(TARGET_NAMES).is_some()
            || asked.into_iter().flatten().any(is_named);
        let header = input.header.unwrap_or_else(|| {
            has_known_names || are_names(&cells(first), data[1..].iter().map(|line| cells(line)))
        });
        let find = |chosen: &Option<String>, known: &[&str], default: Option<usize>, role: &str| {
            match chosen {
                Some(chosen) => {
                    let by_name = if header {
                        names.iter().position(|n| *n == chosen.to_ascii_lowercase())
                    } else {
                        None
                    };
                    let found = by_name
                        .or_else(|| chosen.parse().ok().filter(|&at: &usize| at < names.len()));
                    found.map(Some).ok_or_else(|| {
                        let what = if header {
                            let near = nearest(chosen, names.iter().map(String::as_str));
                            let near = near.map(|near| format!(", did you mean {near:?}?"));
                            format!("columns: {}{}", names.join(", "), near.unwrap_or_default())
                        } else {
                            format!("{} columns, no header", names.len())
                        };
                        IngestError::file(
                            path,
                            format!("no column {chosen:?} for the {role} (found {what})"),
                        )
                    })
                }
                None => Ok(if header { named(known) } else { None }.or(default)),
            }
        };
        let again = (1..names.len()).find(|&at| names[..at].contains(&names[at]));
        if let Some(at) = again.filter(|&at| header && !names[at].is_empty()) {
            let name = quoted(names[at].as_bytes());
            let what = format!(
                "two columns named {name} (expected a name of its own for each; pass --no-header if \
                 the first line is an edge)"
            );
            return Err(IngestError::file(path, what));
        }
        let source = find(&input.source, SOURCE_NAMES, Some(0), "source")?.expect("has a default");
        let target = find(&input.target, TARGET_NAMES, Some(1), "target")?.expect("has a default");
        if source == target {
            return Err(IngestError::file(path, same_column(&names[source], source, header)));
        }
        let third = !header && names.len() == 3 && source.max(target) == 1;
        let weight = find(&input.weight, WEIGHT_NAMES, third.then_some(2), "weight")?;
        let weight = weight.filter(|_| !input.unweighted);
        let first_edge = usize::from(header);
        let text_id = |line| {
            let cells = cells(line);
            let mut ids = [source, target].into_iter().filter_map(|at| cells.get(at).copied());
            ids.find(|id| u64::parse(id).is_err())
        };
        // The first line whose ids are not integers decides.
        let decides =
            || (first_edge..data.len()).find_map(|at| text_id(data[at]).map(|id| (at, id)));
        let (integer, decided) = match input.ids {
            IdChoice::Integer => (true, None),
            IdChoice::String => (false, None),
            IdChoice::Auto => {
                let decided = decides();
                (decided.is_none(), decided)
            }
        };
        let mut guesses = Vec::new();
        let shown = path.display();
        let is_number = |id: &[u8]| !id.is_empty() && id.iter().all(u8::is_ascii_digit);
        match decided {
            Some((at, id)) if at > first_edge || is_number(id) => {
                let line = before + numbers[at];
                let what = match is_number(id) {
                    true if is_padded(id) => "has a leading zero",
                    true => "is above 18446744073709551615",
                    false => "is not an integer",
                };
                let id = quoted(id);
                guesses.push(format!(
                    "{shown}:{line}: the id {id} {what}, so all ids are text: pass --ids integer \
                     to insist on integers"
                ));
            }
            _ if !integer && !header && input.header.is_none() => {
                let line = quoted(first);
                guesses.push(format!(
                    "{shown}: the first line {line} is taken as an edge: pass --header if it names \
                     the columns"
                ));
            }
            _ => {}
        }
        if header && input.header.is_none() && !has_known_names {
            let name = |column: usize| {
                let name = names.get(column).map_or("", String::as_str);
                quoted(name.as_bytes())
            };
            let weight = weight.map_or("there is no weight".into(), |weight| {
                format!("the weight is {}", name(weight))
            });
            guesses.push(format!(
                "{shown}: the first line is taken as a header: the source is {}, the target is {}, \
                 {weight}: pass --no-header if it is an edge, or choose columns with --source, \
                 --target and --weight",
                name(source),
                name(target)
            ));
        }
        if third && weight.is_some() && input.weight.is_none() {
            guesses.push(format!(
                "{shown}: the third column is taken as the weight: pass --unweighted if it is not"
            ));
        }
        let form = match separator {
            Separator::Blank => "blanks between columns",
            Separator::Tab => "tabs between columns",
            Separator::Comma => "commas between columns",
        };
        let form = format!("{form}, {} header", if header { "a" } else { "no" });
        let texts: Vec<String> = columns(first, separator).map(column_text).collect();
        let shown = |at: usize| match header {
            true => quoted(texts[at].as_bytes()),
            false => format!("column {at}"),
        };
        let words = words(&form, (0..texts.len()).map(shown), [source, target], weight, integer);
        let columns = names.len();
        Ok(Self { separator, header, source, target, weight, integer, guesses, words, columns })
    }

    /// Start of the data in the first block: after the header, if there is one.
    pub fn data_start(&self, text: &[u8]) -> usize {
        if !self.header {
            return 0;
        }
        let header = lines(text).find(|(_, line)| !no_edge(line));
        let end = header.map_or(0, |(at, _)| at);
        text[end..]
            .iter()
            .position(|&byte| byte == b'\n')
            .map_or(text.len(), |newline| end + newline + 1)
    }

    /// Number of columns that a line must have.
    fn width(&self) -> usize {
        1 + self.source.max(self.target).max(self.weight.unwrap_or(0))
    }

    /// Whether the fast parser for plain integer columns can be used.
    fn plain(&self) -> bool {
        self.integer && (self.source, self.target) == (0, 1) && self.weight.is_none()
    }
}

/// What is wrong where source and target are one column.
pub fn same_column(name: &str, at: usize, header: bool) -> String {
    let column = if header { format!("{name:?}") } else { format!("{at}") };
    format!(
        "column {column} is both source and target (expected two columns: choose them with \
         --source and --target)"
    )
}

/// The name of a column in lower case.
fn column_name(cell: Cell) -> String {
    column_text(cell).to_ascii_lowercase()
}

/// The name of a column.
fn column_text(cell: Cell) -> String {
    let text = match cell.form {
        CellForm::Doubled => with_single_quotes(cell.text).into(),
        _ => Cow::Borrowed(cell.text),
    };
    String::from_utf8_lossy(&text).into_owned()
}

/// How the columns of edges are read, for people: `form`, which of the `columns` are the ends and
/// the weight, which are ignored, and what ids are.
pub fn words(
    form: &str,
    columns: impl Iterator<Item = String>,
    ends: [usize; 2],
    weight: Option<usize>,
    integer: bool,
) -> String {
    let columns: Vec<String> = columns.collect();
    let name = |at: usize| columns.get(at).cloned().unwrap_or_else(|| format!("column {at}"));
    let weight_words = weight.map_or("no weight".into(), |at| format!("weight {}", name(at)));
    let is_used = |at: usize| ends.contains(&at) || Some(at) == weight;
    let ignored: Vec<String> = (0..columns.len()).filter(|&at| !is_used(at)).map(name).collect();
    let ignored = match &ignored[..] {
        [] => String::new(),
        few if few.len() <= SHOWN_COLUMNS => format!(", ignored: {}", few.join(", ")),
        many => {
            let (few, more) = many.split_at(SHOWN_COLUMNS);
            format!(", ignored: {} and {} more", few.join(", "), more.len())
        }
    };
    let ids = if integer { "integer ids" } else { "text ids" };
    let [source, target] = ends.map(name);
    format!("{form}, {ids}, source {source}, target {target}, {weight_words}{ignored}")
}

/// Whether the first line has names and not an edge: none of its cells is a number, although all
/// other lines have numbers in the column of one of them.
fn are_names<'a>(first: &[&[u8]], others: impl Iterator<Item = Vec<&'a [u8]>>) -> bool {
    // Rust reads "inf" and "nan" as numbers.
    let is_number = |cell: &[u8]| {
        cell.iter().any(u8::is_ascii_digit)
            && std::str::from_utf8(cell).is_ok_and(|text| text.parse::<f64>().is_ok())
    };
    if first.iter().any(|cell| is_number(cell)) {
        return false;
    }
    let mut others = others.peekable();
    let mut are_numbers = vec![others.peek().is_some(); first.len()];
    for line in others {
        for (column, are_numbers) in are_numbers.iter_mut().enumerate() {
            *are_numbers &= line.get(column).is_some_and(|cell| is_number(cell));
        }
    }
    are_numbers.contains(&true)
}

/// Names of the source column.
pub const SOURCE_NAMES: &[&str] = &[
    "source",
    "src",
    "from",
    "u",
    "head",
    "fromnodeid",
    "from_node_id",
    "from_id",
    "source_id",
    "node1",
    "id1",
    "subject",
];
/// Names of the target column.
pub const TARGET_NAMES: &[&str] = &[
    "target",
    "dst",
    "destination",
    "to",
    "v",
    "tail",
    "tonodeid",
    "to_node_id",
    "to_id",
    "target_id",
    "node2",
    "id2",
    "object",
];
/// Names of the weight column.
pub const WEIGHT_NAMES: &[&str] = &["weight", "w", "value", "count", "weights"];

/// Parses the edges of a block of whole lines until `push` asks to stop. `unquoted` has the texts
/// of cells with doubled quotes, from [`unquoted`]. Returns the last answer of `push`.
pub fn parse<'a, K: Key<'a>>(
    text: &'a [u8],
    unquoted: &'a [Vec<u8>],
    layout: &Layout,
    mut push: impl FnMut(K, K, f32) -> Pushed,
) -> Result<Pushed, BadLine> {
    let width = layout.width();
    let mut cells: Vec<Cell> = Vec::new();
    let mut unquoted = unquoted.iter();
    for (at, line) in lines(text) {
        if no_edge(line) {
            continue;
        }
        let bad = |expected: &str, found: &[u8]| BadLine {
            at,
            expected: expected.into(),
            found: quoted(found),
        };
        cells.clear();
        let mut all = columns(line, layout.separator);
        cells.extend(all.by_ref().take(width));
        // One more than in the first line is a separator inside a cell: what follows is shifted.
        if layout.separator != Separator::Blank
            && let Some(surplus) = all.nth(layout.columns.saturating_sub(width))
            && !surplus.text.is_empty()
        {
            let expected = format!(
                "at most {} columns as in the first line (cells with a separator need quotes)",
                layout.columns
            );
            let count = columns(line, layout.separator).count();
            let found = format!("{count}: {}", quoted(line));
            return Err(BadLine { at, expected, found });
        }
        if cells.len() < width {
            // A cell that is not closed takes the rest of the line.
            if let Some(CellForm::Wrong(expected)) = cells.last().map(|cell| cell.form) {
                return Err(bad(expected, line));
            }
            let expected = format!("{width} columns");
            let found = format!("{}: {}", cells.len(), quoted(line));
            return Err(BadLine { at, expected, found });
        }
        for cell in cells.iter_mut().filter(|cell| cell.form == CellForm::Doubled) {
            if let Some(text) = unquoted.next() {
                cell.text = text;
            }
        }
        let key = |column: usize| {
            let Cell { text, form } = cells[column];
            match form {
                CellForm::Wrong(expected) => Err(bad(expected, line)),
                CellForm::Plain if K::IS_TEXT && text.contains(&b'"') => {
                    let is_blank = layout.separator == Separator::Blank;
                    Err(bad(if is_blank { BLANK_UNQUOTED } else { UNQUOTED }, text))
                }
                _ => K::parse(text).map_err(|expected| bad(expected, text)),
            }
        };
        let (source, target) = (key(layout.source)?, key(layout.target)?);
        let weight = match layout.weight {
            Some(column) => {
                let text = cells[column].text;
                parse_weight(text).map_err(|expected| bad(expected, text))?
            }
            None => 1.0,
        };
        match push(source, target, weight) {
            Pushed::Taken => {}
            Pushed::Full => return Ok(Pushed::Full),
            Pushed::UnknownSource => {
                return Err(bad(LISTED, cells[layout.source].text));
            }
            Pushed::UnknownTarget => {
                return Err(bad(LISTED, cells[layout.target].text));
            }
        }
    }
    Ok(Pushed::Taken)
}

/// The same for integer ids in the first two columns, which most edge lists have, without splitting
/// a line into cells. Other lines are passed to [`parse`].
pub fn parse_integers(
    text: &[u8],
    layout: &Layout,
    mut push: impl FnMut(u64, u64, f32) -> Pushed,
) -> Result<Pushed, BadLine> {
    if !layout.plain() {
        return parse(text, &[], layout, push);
    }
    let mut at = 0;
    while at < text.len() {
        let start = at;
        if let Some((source, target, end)) = plain_line(text, at) {
            let pushed = push(source, target, 1.0);
            at = end;
            if pushed == Pushed::Taken {
                continue;
            }
            if pushed == Pushed::Full {
                return Ok(pushed);
            }
        }
        // A comment, an empty line, an error, or more columns: take the slow path for this line.
        let end = text[start..]
            .iter()
            .position(|&byte| byte == b'\n')
            .map_or(text.len(), |n| start + n + 1);
        let done = parse(&text[start..end], &[], layout, &mut push);
        match done.map_err(|bad| BadLine { at: start + bad.at, ..bad })? {
            Pushed::Taken => at = end,
            other => return Ok(other),
        }
    }
    Ok(Pushed::Taken)
}

/// `digits separator digits end-of-line` at `at`: both numbers and the start of the next line.
#[inline(always)]
fn plain_line(text: &[u8], mut at: usize) -> Option<(u64, u64, usize)> {
    let separator = |byte: u8| byte == b' ' || byte == b'\t' || byte == b',';
    let source = unpadded(text, &mut at)?;
    let from = at;
    while separator(*text.get(at)?) {
        at += 1;
    }
    if at == from {
        return None;
    }
    let target = unpadded(text, &mut at)?;
    match text.get(at) {
        None => Some((source, target, at)),
        Some(b'\n') => Some((source, target, at + 1)),
        Some(b'\r') if text.get(at + 1) == Some(&b'\n') => Some((source, target, at + 2)),
        _ => None,
    }
}

/// [`integer`] without leading zeros.
#[inline(always)]
fn unpadded(text: &[u8], at: &mut usize) -> Option<u64> {
    let start = *at;
    let value = integer(text, at)?;
    (!is_padded(&text[start..*at])).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ignn_format::random::Sequence;

    #[test]
    fn numbers_of_every_length() {
        let mut stream = Sequence::new(1, "numbers");
        for digits in 1..=20u32 {
            for after in ["", " ", "\t77777777", "\n", ",x", ":", "/", "\u{ff}\u{ff}"] {
                let number = stream.bits() as u128 % 10u128.pow(digits);
                let text = format!("{number:0width$}{after}        ", width = digits as usize);
                let mut at = 0;
                let expected = u64::try_from(number).ok();
                assert_eq!(integer(text.as_bytes(), &mut at), expected, "{text:?}");
                assert_eq!(at, digits as usize);
                let mut at = 0;
                assert_eq!(any_integer(text.trim_end().as_bytes(), &mut at), expected, "{text:?}");
            }
        }
        assert_eq!(integer(b"", &mut 0), None);
        assert_eq!(integer(b"x1234567", &mut 0), None);
        assert_eq!(integer(b"18446744073709551615 ", &mut 0), Some(u64::MAX));
        assert_eq!(integer(b"18446744073709551616 ", &mut 0), None);
    }
}
