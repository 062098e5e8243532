//! A parser of our pages that accepts nothing else: lower-case names, attributes in double quotes,
//! five entities, every element closed in order, and only elements and attributes of the template.

/// A piece of a page, with its entities resolved.
#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    Open(String, Vec<(String, String)>),
    Close(String),
    Text(String),
}

const VOID: [&str; 2] = ["meta", "link"];

/// Elements with their attributes.
const TEMPLATE: [(&str, &[&str]); 40] = [
    ("html", &["lang"]),
    ("head", &[]),
    ("meta", &["charset", "http-equiv", "name", "content"]),
    ("link", &["rel", "href"]),
    ("title", &["id"]),
    ("style", &[]),
    ("body", &[]),
    ("header", &[]),
    ("main", &[]),
    ("nav", &["aria-label"]),
    ("a", &["href"]),
    ("section", &["id"]),
    ("h1", &[]),
    ("h2", &[]),
    ("h3", &[]),
    ("p", &[]),
    ("pre", &[]),
    ("details", &[]),
    ("summary", &[]),
    ("div", &["class", "tabindex"]),
    ("table", &[]),
    ("thead", &[]),
    ("tbody", &[]),
    ("tr", &["class"]),
    ("th", &["scope", "class"]),
    ("td", &["class", "style"]),
    ("ul", &["class"]),
    ("li", &[]),
    ("span", &["class"]),
    ("figure", &["id", "class"]),
    ("figcaption", &[]),
    ("svg", &["viewBox", "role", "aria-labelledby"]),
    ("desc", &["id"]),
    ("g", &["class"]),
    ("line", &["class", "data-reference", "x1", "x2", "y1", "y2"]),
    ("text", &["class", "x", "y"]),
    ("path", &["class", "data-series", "d"]),
    ("polygon", &["class", "points"]),
    ("circle", &["class", "cx", "cy", "r"]),
    ("rect", &["class", "data-part", "x", "y", "width", "height"]),
];

/// The nodes of a page; panics where it is not one of ours.
#[track_caller]
pub fn parse(page: &str) -> Vec<Node> {
    let mut rest = page.strip_prefix("<!DOCTYPE html>\n").expect("a document type");
    let (mut nodes, mut open): (Vec<Node>, Vec<String>) = (Vec::new(), Vec::new());
    while !rest.is_empty() {
        let context = || rest.chars().take(200).collect::<String>();
        if let Some(after) = rest.strip_prefix("</") {
            let (name, after) = after.split_once('>').expect("the end of a tag");
            assert_eq!(open.pop().as_deref(), Some(name), "closed out of order: {}", context());
            nodes.push(Node::Close(name.into()));
            rest = after;
        } else if let Some(after) = rest.strip_prefix('<') {
            let (name, attributes, after) = tag(after);
            check(&name, &attributes);
            if name == "style" {
                let (sheet, _) = after.split_once("</style>").expect("the end of the styles");
                assert!(!sheet.contains('<'), "markup in the style sheet");
                rest = &after[sheet.len()..];
            } else {
                rest = after;
            }
            if !VOID.contains(&name.as_str()) {
                open.push(name.clone());
            }
            nodes.push(Node::Open(name, attributes));
        } else {
            let (text, after) = rest.split_at(rest.find('<').unwrap_or(rest.len()));
            assert!(!open.is_empty() || text.trim().is_empty(), "text outside: {}", context());
            nodes.push(Node::Text(resolved(text)));
            rest = after;
        }
    }
    assert!(open.is_empty(), "not closed: {open:?}");
    nodes
}

/// Name and attributes of a start tag, and what follows it.
fn tag(text: &str) -> (String, Vec<(String, String)>, &str) {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let end = text.find(|c| !is_name(c)).expect("the end of a name");
    let (name, mut rest) = text.split_at(end);
    let mut attributes = Vec::new();
    loop {
        if let Some(after) = rest.strip_prefix('>') {
            return (name.into(), attributes, after);
        }
        rest = rest.strip_prefix(' ').expect("a space before an attribute");
        let (attribute, after) = rest.split_once("=\"").expect("a value in double quotes");
        assert!(!attribute.is_empty() && attribute.chars().all(is_name), "{attribute:?}");
        let (value, after) = after.split_once('"').expect("the end of a value");
        attributes.push((attribute.into(), resolved(value)));
        rest = after;
    }
}

/// Text with its entities resolved; markup and control characters are refused.
fn resolved(text: &str) -> String {
    let wrong = |c: char| "<>\"'".contains(c) || (c.is_control() && c != '\n' && c != '\t');
    assert!(!text.contains(wrong), "not escaped: {text:?}");
    let mut pieces = text.split('&');
    let mut all = pieces.next().unwrap_or_default().to_string();
    for piece in pieces {
        let (entity, after) = piece.split_once(';').expect("the end of an entity");
        all.push_str(match entity {
            "amp" => "&",
            "lt" => "<",
            "gt" => ">",
            "quot" => "\"",
            "#39" => "'",
            other => panic!("entity {other}"),
        });
        all.push_str(after);
    }
    all
}

/// Refuses an element or attribute that is not of the template, and values that could do harm
/// where they stand.
fn check(name: &str, attributes: &[(String, String)]) {
    let (_, allowed) = TEMPLATE
        .iter()
        .find(|(known, _)| *known == name)
        .unwrap_or_else(|| panic!("element {name}"));
    for (attribute, value) in attributes {
        assert!(allowed.contains(&attribute.as_str()), "attribute {attribute} of {name}");
        let is_anchor = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        let sound = match attribute.as_str() {
            "href" => value == "data:," || value.strip_prefix('#').is_some_and(is_anchor),
            "id" => is_anchor(value),
            "style" => {
                let share = value.strip_prefix("--share:").and_then(|v| v.strip_suffix('%'));
                share.is_some_and(|share| share.parse::<f64>().is_ok())
            }
            "http-equiv" => value == "Content-Security-Policy",
            _ => true,
        };
        assert!(sound, "{name} {attribute}={value:?}");
    }
    let mut names: Vec<&String> = attributes.iter().map(|(name, _)| name).collect();
    names.dedup();
    assert_eq!(names.len(), attributes.len(), "an attribute of {name} twice");
}

#[test]
fn the_parser_refuses_what_is_not_ours() {
    let page = |body: &str| format!("<!DOCTYPE html>\n<body>{body}</body>\n");
    assert_eq!(parse(&page("<p>a &lt; b</p>")).len(), 6);
    for wrong in [
        "<script>x</script>",
        "<p onclick=\"x\">a</p>",
        "<p>a",
        "<p>a</b>",
        "<p>a > b</p>",
        "<p>&nbsp;</p>",
        "<p>a & b</p>",
        "<p class=x>a</p>",
        "<a href=\"javascript:x\">a</a>",
        "<section id=\"a b\"></section>",
        "<td style=\"color:red\"></td>",
        "<!-- a -->",
        "<p>\u{1b}</p>",
    ] {
        assert!(std::panic::catch_unwind(|| parse(&page(wrong))).is_err(), "{wrong}");
    }
}
