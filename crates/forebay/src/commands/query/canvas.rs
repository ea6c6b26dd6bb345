//! The surface that plots are drawn on.

/// Red, green, blue.
pub type Colour = [u8; 3];

/// Where a text lies beside its place.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    /// It begins there.
    Start,
    /// Its middle is there.
    Middle,
    /// It ends there.
    End,
}

/// A rectangle: its left upper corner, width and height.
#[derive(Clone, Copy)]
pub struct Place {
    pub x: f64,
    pub y: f64,
    pub width: f64,
    pub height: f64,
}

/// The surface of a plot, white at first. Places are in units of a pixel.
pub trait Canvas {
    /// Fills a rectangle; `title` says what it stands for where there is room for that.
    fn rectangle(&mut self, place: Place, colour: Colour, title: &str);

    /// Writes a line of text whose foot is at `y`; a heading is larger.
    fn text(&mut self, at: (f64, f64), anchor: Anchor, is_heading: bool, colour: Colour, text: &str);
}
