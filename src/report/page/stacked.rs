//! Stacked horizontal bars. Parts have the same order and colour in every bar; a legend names them.

use super::chart::COLOURS;
use super::html::{Anchor, Element, Html, element};

const WIDTH: f64 = 480.0;
const ROW: f64 = 46.0;
const BAR: f64 = 20.0;
/// Approximate width of a letter.
const LETTER: f64 = 7.0;

/// A chart of stacked bars.
#[derive(Clone, Debug)]
pub struct StackedBars {
    /// Its anchor is made from this; unique on the page.
    pub id: String,
    /// What the bars show, with its unit.
    pub title: String,
    /// Names of the parts.
    pub parts: Vec<String>,
    /// The bars: name, text behind the bar, values of the parts.
    pub bars: Vec<(String, String, Vec<f64>)>,
}

impl StackedBars {
    /// The SVG figure; `None` if all bars are empty.
    pub(super) fn element(&self) -> Option<Element> {
        let sum = |parts: &[f64]| parts.iter().filter(|part| part.is_finite()).sum::<f64>();
        let most = self.bars.iter().map(|(_, _, parts)| sum(parts)).fold(0.0, f64::max);
        if most <= 0.0 {
            return None;
        }
        let mut drawn = Html::new();
        for (at, (name, total, parts)) in self.bars.iter().enumerate() {
            let top = ROW * at as f64;
            let text = |class: &str| element("text").set("class", class);
            drawn.add(text("label").set("x", 0).at("y", top + 14.0).text(name));
            drawn.add(text("end").set("x", WIDTH).at("y", top + 14.0).text(total));
            let mut left = 0.0;
            for (part, value) in parts.iter().enumerate().filter(|(_, value)| **value > 0.0) {
                let width = WIDTH * value / most;
                let share = format!("{:.0} %", 100.0 * value / sum(parts));
                let name = self.parts.get(part).map_or("", String::as_str);
                let y = top + 20.0;
                let bar = element("rect")
                    .set("class", format_args!("part s{}", part % COLOURS))
                    .set("data-part", name)
                    .at("x", left)
                    .at("y", y)
                    .at("width", width)
                    .set("height", BAR);
                drawn.add(bar.with(element("title").text(format_args!("{name}: {share}"))));
                if width > LETTER * share.chars().count() as f64 + 6.0 {
                    drawn.add(text("in").at("x", left + width / 2.0).at("y", y + 14.5).text(share));
                }
                left += width;
            }
        }
        let legend = self.parts.iter().enumerate().map(|(part, name)| {
            let swatch = element("span").set("class", format_args!("swatch s{}", part % COLOURS));
            element("li").with(swatch).text(name)
        });
        let described: Vec<String> =
            self.bars.iter().map(|(name, total, _)| format!("{name}: {total}")).collect();
        let id = Anchor::new(&self.id);
        let svg = element("svg")
            .set("viewBox", format_args!("0 0 {WIDTH} {}", ROW * self.bars.len() as f64))
            .set("role", "img")
            .set("aria-labelledby", format_args!("{id}-title {id}-desc"))
            .with(element("title").set("id", format_args!("{id}-title")).text(&self.title))
            .with(element("desc").set("id", format_args!("{id}-desc")).text(described.join("; ")))
            .with(drawn);
        let figure = element("figure")
            .set("id", &id)
            .set("class", "bars")
            .with(element("figcaption").text(&self.title))
            .with(element("ul").set("class", "legend").with(legend.collect::<Html>()))
            .with(svg);
        Some(figure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_fill_their_bar() {
        let bars = |values: [f64; 2]| StackedBars {
            id: "time".into(),
            title: "Time, seconds".into(),
            parts: vec!["forward".into(), "adjoint".into()],
            bars: vec![("run".into(), "4 s".into(), values.to_vec())],
        };
        let svg = Html::document(bars([3.0, 1.0]).element().unwrap());
        assert!(
            svg.contains("data-part=\"forward\" x=\"0.0\" y=\"20.0\" width=\"360.0\""),
            "{svg}"
        );
        assert!(
            svg.contains("data-part=\"adjoint\" x=\"360.0\" y=\"20.0\" width=\"120.0\""),
            "{svg}"
        );
        assert!(svg.contains(">75 %</text>") && svg.contains("run: 4 s"));
        assert!(bars([0.0, f64::NAN]).element().is_none());
    }
}
