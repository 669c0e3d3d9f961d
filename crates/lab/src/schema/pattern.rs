//! The regular expressions of the API schema, matched as a whole.
//!
//! They use a small part of Perl's language: characters, classes, groups, alternatives and counts. A pattern is compiled
//! once into a tree and matched by trying each way in order; the values are short, so that this is fast enough.

/// A compiled pattern.
#[derive(Debug)]
pub(crate) struct Pattern(Node);

#[derive(Debug)]
enum Node {
    /// One character out of these; `false` means any but these.
    Class(Vec<(char, char)>, bool),
    Begin,
    End,
    Sequence(Vec<Node>),
    Either(Vec<Node>),
    Repeat(Box<Node>, usize, usize),
}

impl Pattern {
    /// Compiles `text`; nothing if it uses what this does not know.
    pub(crate) fn new(text: &str) -> Option<Self> {
        let chars: Vec<char> = text.chars().collect();
        let mut parser = Parser { chars: &chars, at: 0, any_case: false };
        let node = parser.either()?;
        (parser.at == chars.len()).then_some(Self(node))
    }

    /// Whether the whole of `text` fits.
    pub(crate) fn fits(&self, text: &str) -> bool {
        let chars: Vec<char> = text.chars().collect();
        self.0.walk(&chars, 0, &mut |at| at == chars.len())
    }
}

impl Node {
    /// Tries every way from `at`; `rest` says whether what follows fits as well.
    fn walk(&self, text: &[char], at: usize, rest: &mut dyn FnMut(usize) -> bool) -> bool {
        match self {
            Self::Class(ranges, wanted) => {
                let Some(c) = text.get(at) else { return false };
                ranges.iter().any(|(from, to)| from <= c && c <= to) == *wanted && rest(at + 1)
            }
            Self::Begin => at == 0 && rest(at),
            Self::End => at == text.len() && rest(at),
            Self::Sequence(nodes) => sequence(nodes, text, at, rest),
            Self::Either(ways) => ways.iter().any(|way| way.walk(text, at, rest)),
            Self::Repeat(node, least, most) => repeat(node, *least, *most, text, at, rest),
        }
    }
}

fn sequence(nodes: &[Node], text: &[char], at: usize, rest: &mut dyn FnMut(usize) -> bool) -> bool {
    match nodes.split_first() {
        None => rest(at),
        Some((first, others)) => first.walk(text, at, &mut |next| sequence(others, text, next, rest)),
    }
}

fn repeat(
    node: &Node,
    least: usize,
    most: usize,
    text: &[char],
    at: usize,
    rest: &mut dyn FnMut(usize) -> bool,
) -> bool {
    let more = most > 0
        && node.walk(text, at, &mut |next| {
            // A part that took nothing would be tried for ever.
            next > at && repeat(node, least.saturating_sub(1), most.saturating_sub(1), text, next, rest)
        });
    more || (least == 0 && rest(at))
}

struct Parser<'a> {
    chars: &'a [char],
    at: usize,
    /// Inside a group in which large and small letters are the same.
    any_case: bool,
}

impl Parser<'_> {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn take(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += 1;
        Some(c)
    }

    fn eat(&mut self, wanted: &str) -> bool {
        let there = wanted.chars().enumerate().all(|(n, c)| self.chars.get(self.at + n) == Some(&c));
        if there {
            self.at += wanted.chars().count();
        }
        there
    }

    fn either(&mut self) -> Option<Node> {
        let mut ways = vec![self.sequence()?];
        while self.eat("|") {
            ways.push(self.sequence()?);
        }
        Some(Node::Either(ways))
    }

    fn sequence(&mut self) -> Option<Node> {
        let mut nodes = Vec::new();
        while self.peek().is_some_and(|c| c != '|' && c != ')') {
            let node = self.atom()?;
            nodes.push(self.counted(node)?);
        }
        Some(Node::Sequence(nodes))
    }

    fn atom(&mut self) -> Option<Node> {
        match self.take()? {
            '(' => {
                // Whether a group captures is the same to us; of its flags one counts, and `^` takes it away.
                let outside = self.any_case;
                if self.eat("?") {
                    loop {
                        match self.take()? {
                            ':' => break,
                            '^' => self.any_case = false,
                            'i' => self.any_case = true,
                            _ => {}
                        }
                    }
                }
                let node = self.either()?;
                self.any_case = outside;
                self.eat(")").then_some(node)
            }
            '[' => self.class(),
            '.' => Some(Node::Class(vec![('\n', '\n')], false)),
            '^' => Some(Node::Begin),
            '$' => Some(Node::End),
            '\\' => {
                let (ranges, wanted) = self.escape()?;
                Some(self.letters(ranges, wanted))
            }
            c => Some(self.letters(vec![(c, c)], true)),
        }
    }

    /// A class, with the letters of the other case where that is asked for.
    fn letters(&self, mut ranges: Vec<(char, char)>, wanted: bool) -> Node {
        if self.any_case {
            let small = ranges.iter().map(|(a, b)| (a.to_ascii_lowercase(), b.to_ascii_lowercase()));
            let large = ranges.iter().map(|(a, b)| (a.to_ascii_uppercase(), b.to_ascii_uppercase()));
            ranges = ranges.iter().copied().chain(small).chain(large).collect();
        }
        Node::Class(ranges, wanted)
    }

    /// What follows a backslash.
    fn escape(&mut self) -> Option<(Vec<(char, char)>, bool)> {
        match self.take()? {
            'x' => {
                let digits: String = [self.take()?, self.take()?].into_iter().collect();
                let c = char::from(u8::from_str_radix(&digits, 16).ok()?);
                Some((vec![(c, c)], true))
            }
            '0' => Some((vec![('\0', '\0')], true)),
            letter => Some(escaped(letter)),
        }
    }

    fn counted(&mut self, node: Node) -> Option<Node> {
        let (least, most) = match self.peek() {
            Some('*') => (0, usize::MAX),
            Some('+') => (1, usize::MAX),
            Some('?') => (0, 1),
            Some('{') => {
                self.at += 1;
                let least = if self.peek() == Some(',') { 0 } else { self.number()? };
                let most = match self.take()? {
                    '}' => return Some(Node::Repeat(Box::new(node), least, least)),
                    ',' if self.eat("}") => usize::MAX,
                    ',' => {
                        let most = self.number()?;
                        self.eat("}").then_some(most)?
                    }
                    _ => return None,
                };
                return Some(Node::Repeat(Box::new(node), least, most));
            }
            _ => return Some(node),
        };
        self.at += 1;
        Some(Node::Repeat(Box::new(node), least, most))
    }

    fn number(&mut self) -> Option<usize> {
        let mut text = String::new();
        while let Some(c) = self.peek().filter(char::is_ascii_digit) {
            text.push(c);
            self.at += 1;
        }
        text.parse().ok()
    }

    fn class(&mut self) -> Option<Node> {
        let wanted = !self.eat("^");
        let mut ranges = Vec::new();
        loop {
            match self.take()? {
                ']' => return Some(self.letters(ranges, wanted)),
                '\\' => match self.escape()?.0.as_slice() {
                    [(from, to)] if from == to => ranges.push((*from, self.range_end(*from)?)),
                    many => ranges.extend(many),
                },
                from => ranges.push((from, self.range_end(from)?)),
            }
        }
    }

    /// The other end of a range in a class, or the character itself where there is none.
    fn range_end(&mut self, from: char) -> Option<char> {
        if self.peek() != Some('-') || self.chars.get(self.at + 1) == Some(&']') {
            return Some(from);
        }
        self.at += 1;
        match self.take()? {
            '\\' => Some(self.escape()?.0.first()?.0),
            to => Some(to),
        }
    }
}

/// What a letter after a backslash stands for.
fn escaped(letter: char) -> (Vec<(char, char)>, bool) {
    let word = vec![('a', 'z'), ('A', 'Z'), ('0', '9'), ('_', '_')];
    let space = vec![(' ', ' '), ('\t', '\t'), ('\n', '\n'), ('\r', '\r')];
    match letter {
        'd' => (vec![('0', '9')], true),
        'w' => (word, true),
        's' => (space, true),
        'S' => (space, false),
        'n' => (vec![('\n', '\n')], true),
        c => (vec![(c, c)], true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_the_schema_are_matched_as_a_whole() {
        let cases = [
            (r"\+?\d+(\.\d+)?[KMGT]?", &["10G", "+512M", "1.5T", "7"][..], &["10GB", "", "G", "-1G"][..]),
            (r"(?^:[A-Za-z][A-Za-z0-9\.\-_]+)", &["lab", "a.b-c_d"], &["t", "1a", "a b"]),
            (r"(/dev/.+|socket)", &["socket", "/dev/ttyS0"], &["socket2", "/dev/"]),
            (
                r"(?:[a-fA-F0-9]{8}(?:-[a-fA-F0-9]{4}){3}-[a-fA-F0-9]{12}|[01])",
                &["1", "4195552e-0000-1111-2222-333344445555"],
                &["2", "4195552e"],
            ),
            (r"[^/\.:]+", &["nvidia-1"], &["a/b", "a:b", ""]),
            (r"https?://.*", &["http://x", "https://"], &["ftp://x"]),
            (r"(?^i:[a-z0-9_][a-z0-9_\-]*)", &["Prod-1", "x"], &["-x", "a b"]),
            (r"(?^:\w+=[^\x00-\x08\x10-\x1F\x7F]*)", &["A=b c", "A="], &["A=\x07", "A b"]),
        ];
        for (pattern, good, bad) in cases {
            let compiled = Pattern::new(pattern).unwrap();
            for text in good {
                assert!(compiled.fits(text), "{pattern} {text}");
            }
            for text in bad {
                assert!(!compiled.fits(text), "{pattern} {text}");
            }
        }
    }
}
