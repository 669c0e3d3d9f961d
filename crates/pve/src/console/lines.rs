//! Lines out of a stream that is cut anywhere.

/// The longest line that is kept. Talos' and the kernel's are much shorter.
const LONGEST: usize = 4 << 10;

/// Collects bytes into lines. What goes beyond the longest line is dropped up to its end, so a guest that never ends a line
/// costs no memory.
#[derive(Debug, Default)]
pub struct Lines {
    line: Vec<u8>,
}

impl Lines {
    /// Takes the next bytes; gives the lines that they end, without their ends. A line that was too long is cut.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<String> {
        let mut lines = vec![];
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let text = part.strip_suffix(b"\n").unwrap_or(part);
            let room = LONGEST.saturating_sub(self.line.len());
            self.line.extend_from_slice(text.get(..room).unwrap_or(text));
            if text.len() < part.len() {
                lines.push(self.take());
            }
        }
        lines
    }

    /// What stands in the line that is not ended yet.
    #[must_use]
    pub fn unfinished(&self) -> String {
        text(&self.line)
    }

    /// Forgets the line that is not ended: what comes next starts a line of its own.
    pub fn cut(&mut self) {
        self.line.clear();
    }

    fn take(&mut self) -> String {
        text(&std::mem::take(&mut self.line))
    }
}

fn text(line: &[u8]) -> String {
    let end = line.iter().rposition(|byte| *byte != b'\r').map_or(0, |at| at + 1);
    String::from_utf8_lossy(&line[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_the_same_however_they_are_cut() {
        let wire = b"[    0.0] one\r\n\r\nthree \xc3\xa9\n\xff\r\nrest";
        let expected = ["[    0.0] one", "", "three \u{e9}", "\u{fffd}"];
        for size in 1..=wire.len() {
            let mut lines = Lines::default();
            let read: Vec<String> = wire.chunks(size).flat_map(|bytes| lines.push(bytes)).collect();
            assert_eq!(read, expected, "cut every {size} bytes");
            assert_eq!(lines.unfinished(), "rest");
        }
    }

    #[test]
    fn a_line_without_an_end_costs_no_memory() {
        let mut lines = Lines::default();
        for _ in 0..1000 {
            assert!(lines.push(&[b'x'; 1000]).is_empty());
        }
        assert!(lines.line.capacity() <= 2 * LONGEST);
        let ended = lines.push(b"\nnext\n");
        assert_eq!((ended[0].len(), ended[1].as_str()), (LONGEST, "next"));
    }
}
