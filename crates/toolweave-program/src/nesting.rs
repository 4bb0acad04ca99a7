//! How deep a text can nest, read off its tokens without recursion, before the recursive parser sees it.
//!
//! Three things must be bounded for a hostile text: the stack that the parser and all later passes use, the
//! depth of the tree, and the time that the parser's speculation takes (`<T>(<T>(…` doubles it per level).
//! This is a lexer and not a parser. Where only a parser could tell a regular expression from a division, the
//! scan says so and the text is judged by its mere number of tokens, which trusts nothing.

/// Levels that a program may nest, brackets and operators together.
pub const MAX_NESTING: u32 = 1_000;

/// Structural tokens up to which a stack is simply made large enough for all of them.
const MAX_BLIND: u32 = 32_000;

/// `<` that one statement may have open at once: the parser tries each as type arguments.
const MAX_ANGLES: u32 = 100;

/// Speculation costs up to the text's size doubled per level.
const MAX_SPECULATION_BYTES: u64 = 64 * 1024 * 1024;

/// The first limit that a program breaks, and where.
pub(crate) type Limit = (usize, Refusal);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Deep,
    Angles,
    Speculation,
    /// A text too large to allow for everything, in which a `/` could be two things.
    Ambiguous,
}

/// Returns the levels that the stack must have room for, whatever part of the text turns out to be the program.
pub(crate) fn stack_levels(text: &str) -> u32 {
    blind(text.as_bytes()).min(MAX_BLIND)
}

/// Checks the exact text that the parser is going to see: with a fence around it, it would read differently.
pub(crate) fn limit(source: &str) -> Option<Limit> {
    let blind = blind(source.as_bytes());
    if blind <= 48 {
        // So few tokens only matter if most of them are speculation.
        let angles = source.bytes().filter(|&byte| byte == b'<').count();
        if angles + source.matches("=>").count() <= 8 {
            return None;
        }
    }
    scan(source, blind)
}

/// Counts every byte and word that could be a token which nests.
fn blind(bytes: &[u8]) -> u32 {
    let mut count = 0u32;
    let mut previous = b' ';
    for &byte in bytes {
        let structural = match byte {
            b'(' | b'[' | b'{' | b'<' | b'!' | b'~' | b'+' | b'-' | b'*' | b'/' | b'%' | b'^' | b'&'
            | b'|' => true,
            b'`' | b'@' | b':' | b'?' => true,
            b'=' | b'.' | b'>' => byte != previous,
            b'a'..=b'z' => !(previous.is_ascii_alphanumeric() || previous == b'_' || previous == b'$'),
            _ => false,
        };
        count = count.saturating_add(u32::from(structural));
        previous = byte;
    }
    count
}

/// Counters of one bracket level, or sums over levels.
#[derive(Clone, Copy, Default)]
struct Counts {
    chain: u32,
    angles: u32,
    speculation: u32,
}

impl Counts {
    fn plus(self, other: Self) -> Self {
        Self {
            chain: self.chain + other.chain,
            angles: self.angles + other.angles,
            speculation: self.speculation + other.speculation,
        }
    }
}

struct Level {
    opener: u8,
    /// Sum over the levels outside.
    outer: Counts,
    here: Counts,
    elses: u32,
    /// A `(` after `if`, `while`, `for` or `with`: what follows its `)` is a statement.
    head: bool,
    /// `)` and `:` were seen: an arrow after them is one that the parser may have to try twice.
    annotated: bool,
}

/// What the token before a place was, as far as it decides what may follow.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    /// An operator, an opening bracket, a keyword or the start: an operand follows.
    Operand,
    /// The end of an operand: an operator follows.
    Operator,
    /// Only a parser knows.
    Unclear,
}

fn scan(text: &str, blind: u32) -> Option<Limit> {
    let mut scan = Scan {
        bytes: text.as_bytes(),
        at: 0,
        levels: vec![Level::new(b' ', Counts::default(), false)],
        before: Before::Operand,
        word: "",
        after_dot: false,
        newline: false,
        semicolon: false,
        // A large text gets no credit for line ends, which an attacker can place.
        lenient: blind <= MAX_BLIND,
        refusal: None,
    };
    scan.run(text);
    scan.refusal
}

struct Scan<'a> {
    bytes: &'a [u8],
    at: usize,
    levels: Vec<Level>,
    before: Before,
    /// The word just read, empty after anything else.
    word: &'a str,
    after_dot: bool,
    newline: bool,
    semicolon: bool,
    lenient: bool,
    refusal: Option<(usize, Refusal)>,
}

impl Level {
    fn new(opener: u8, outer: Counts, head: bool) -> Self {
        Self {
            opener,
            outer,
            here: Counts::default(),
            elses: 0,
            head,
            annotated: false,
        }
    }
}

/// Words that take an operand or nest a statement or a type.
const NESTING_WORDS: [&str; 31] = [
    "as",
    "async",
    "asserts",
    "await",
    "case",
    "class",
    "delete",
    "do",
    "else",
    "extends",
    "for",
    "function",
    "if",
    "import",
    "in",
    "infer",
    "instanceof",
    "is",
    "keyof",
    "new",
    "of",
    "readonly",
    "return",
    "satisfies",
    "throw",
    "typeof",
    "unique",
    "void",
    "while",
    "with",
    "yield",
];

/// Words after which an operand stands, so that `/` starts a regular expression.
const OPERAND_WORDS: [&str; 15] = [
    "await",
    "case",
    "delete",
    "do",
    "else",
    "extends",
    "in",
    "instanceof",
    "new",
    "return",
    "throw",
    "typeof",
    "void",
    "yield",
    "default",
];

/// Words that start a statement and nothing else.
const STATEMENT_WORDS: [&str; 7] = ["var", "return", "throw", "break", "continue", "export", "import"];

/// Words that start a declaration, given that an operand ended before them.
const DECLARATION_WORDS: [&str; 5] = ["const", "let", "class", "function", "export"];

/// Words that start a statement unless they stand where an operand may.
const BLOCK_WORDS: [&str; 8] = ["if", "for", "while", "do", "switch", "try", "async", "await"];

impl<'a> Scan<'a> {
    fn run(&mut self, text: &'a str) {
        if text.starts_with("#!") {
            self.skip_line();
        }
        while self.refusal.is_none()
            && let Some(&byte) = self.bytes.get(self.at)
        {
            self.step(text, byte);
        }
    }

    fn step(&mut self, text: &'a str, byte: u8) {
        let next = self.peek(1);
        match byte {
            b'\n' => {
                self.newline = true;
                self.at += 1;
            }
            b' ' | b'\t' | b'\r' | 0x0b | 0x0c => self.at += 1,
            b'/' if next == b'/' => self.skip_line(),
            b'/' if next == b'*' => self.skip_block_comment(),
            b'/' => self.slash(),
            b'"' | b'\'' => self.string(byte),
            b'`' => {
                self.count_chain();
                self.at += 1;
                self.template();
            }
            b'(' | b'[' | b'{' => {
                let head =
                    byte == b'(' && matches!(self.word, "if" | "while" | "for" | "with") && !self.after_dot;
                self.count_chain();
                self.open(byte, head);
                self.at += 1;
                self.operand_follows();
            }
            b')' | b']' | b'}' => self.close(byte),
            b',' => {
                self.start_token();
                self.reset();
                self.at += 1;
                self.operand_follows();
            }
            b';' => {
                self.start_token();
                self.semicolon = true;
                self.at += 1;
                self.operand_follows();
            }
            b'0'..=b'9' => self.number(),
            b'.' if next.is_ascii_digit() => self.number(),
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'$' | b'#' | b'\\' | 0x80.. => self.word(text),
            _ => self.operator(byte, next),
        }
    }

    fn peek(&self, ahead: usize) -> u8 {
        self.bytes.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn level(&mut self) -> &mut Level {
        if self.levels.is_empty() {
            self.levels.push(Level::new(b' ', Counts::default(), false));
        }
        let last = self.levels.len() - 1;
        &mut self.levels[last]
    }

    /// Settles what the token before left open.
    fn start_token(&mut self) {
        if self.semicolon {
            self.semicolon = false;
            self.reset();
        }
    }

    /// A new element or statement starts on this level: nothing before it can contain it.
    fn reset(&mut self) {
        let level = self.level();
        level.here = Counts::default();
        level.annotated = false;
    }

    fn operand_follows(&mut self) {
        self.before = Before::Operand;
        self.word = "";
        self.after_dot = false;
        self.newline = false;
    }

    fn operand_ended(&mut self) {
        self.before = Before::Operator;
        self.word = "";
        self.after_dot = false;
        self.newline = false;
    }

    fn count_chain(&mut self) {
        self.start_token();
        self.level().here.chain += 1;
        self.check();
    }

    fn check(&mut self) {
        let at = self.at;
        let depth = u32::try_from(self.levels.len()).unwrap_or(u32::MAX);
        let size = self.bytes.len() as u64;
        let level = self.level();
        let sum = level.outer.plus(level.here);
        let refusal = if sum.chain + level.elses + depth > MAX_NESTING {
            Some(Refusal::Deep)
        } else if sum.angles > MAX_ANGLES {
            Some(Refusal::Angles)
        } else if size
            .checked_shl(sum.speculation.min(40))
            .is_none_or(|cost| cost > MAX_SPECULATION_BYTES)
        {
            Some(Refusal::Speculation)
        } else {
            None
        };
        if let Some(refusal) = refusal {
            self.refuse(at, refusal);
        }
    }

    fn refuse(&mut self, at: usize, refusal: Refusal) {
        self.refusal.get_or_insert((at, refusal));
    }

    fn ambiguous(&mut self) {
        // Allowing for every token of the text is safe as long as there are not too many.
        if !self.lenient {
            let at = self.at;
            self.refuse(at, Refusal::Ambiguous);
        }
    }

    fn open(&mut self, opener: u8, head: bool) {
        let level = self.level();
        let mut outer = level.outer.plus(level.here);
        outer.chain += level.elses;
        self.levels.push(Level::new(opener, outer, head));
        self.check();
    }

    fn close(&mut self, byte: u8) {
        self.start_token();
        self.at += 1;
        let opener = match byte {
            b')' => b'(',
            b']' => b'[',
            _ => b'{',
        };
        let top = self.level();
        if byte == b'}' && top.opener == b'`' {
            // The end of a template's substitution.
            self.levels.pop();
            self.template();
            return;
        }
        let (matches, head) = (top.opener == opener, top.head);
        if matches {
            self.levels.pop();
        } else {
            // The parser stops here; if it does not, nothing below may rely on the levels.
            self.ambiguous();
        }
        self.operand_ended();
        self.before = match byte {
            b')' if head => Before::Operand,
            b'}' => Before::Unclear,
            _ => Before::Operator,
        };
        self.word = match byte {
            b')' if !head => ")",
            b'}' => "}",
            _ => "",
        };
    }

    fn skip_line(&mut self) {
        while let Some(&byte) = self.bytes.get(self.at) {
            if byte == b'\n' {
                return;
            }
            // U+2028 and U+2029 end a line, too.
            if byte == 0xe2 && self.peek(1) == 0x80 && matches!(self.peek(2), 0xa8 | 0xa9) {
                return;
            }
            self.at += 1;
        }
    }

    fn skip_block_comment(&mut self) {
        self.at += 2;
        while let Some(&byte) = self.bytes.get(self.at) {
            self.at += 1;
            match byte {
                b'\n' => self.newline = true,
                b'*' if self.peek(0) == b'/' => {
                    self.at += 1;
                    return;
                }
                _ => {}
            }
        }
    }

    fn string(&mut self, quote: u8) {
        self.start_token();
        self.at += 1;
        while let Some(&byte) = self.bytes.get(self.at) {
            self.at += 1;
            match byte {
                b'\\' => self.at += 1,
                b'\n' => {
                    self.ambiguous();
                    break;
                }
                byte if byte == quote => break,
                _ => {}
            }
        }
        self.operand_ended();
    }

    /// Reads the text of a template up to its end or its next substitution.
    fn template(&mut self) {
        while let Some(&byte) = self.bytes.get(self.at) {
            self.at += 1;
            match byte {
                b'\\' => self.at += 1,
                b'`' => {
                    self.operand_ended();
                    return;
                }
                b'$' if self.peek(0) == b'{' => {
                    self.at += 1;
                    self.open(b'`', false);
                    self.operand_follows();
                    return;
                }
                _ => {}
            }
        }
    }

    fn slash(&mut self) {
        match self.before {
            Before::Unclear => {
                self.ambiguous();
                self.count_chain();
                self.at += 1;
                self.operand_follows();
            }
            Before::Operator => {
                self.count_chain();
                self.at += 1;
                self.operand_follows();
            }
            Before::Operand => self.regex(),
        }
    }

    fn regex(&mut self) {
        self.start_token();
        self.at += 1;
        let mut class = false;
        while let Some(&byte) = self.bytes.get(self.at) {
            self.at += 1;
            match byte {
                b'\\' => self.at += 1,
                b'[' => class = true,
                b']' => class = false,
                b'/' if !class => break,
                b'\n' => {
                    self.ambiguous();
                    break;
                }
                _ => {}
            }
        }
        while self.peek(0).is_ascii_alphanumeric() {
            self.at += 1;
        }
        self.operand_ended();
    }

    fn number(&mut self) {
        self.start_token();
        while matches!(self.peek(0), b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'.') {
            self.at += 1;
        }
        self.operand_ended();
    }

    fn word(&mut self, text: &'a str) {
        let start = self.at;
        while matches!(self.peek(0), b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'$' | b'#' | b'\\' | 0x80..)
        {
            self.at += 1;
        }
        let word = text.get(start..self.at).unwrap_or_default();
        if !word.is_ascii() && word.chars().all(|c| c.is_whitespace() || c == '\u{feff}') {
            // Unicode white space, and U+2028 and U+2029.
            return;
        }
        if !word.is_ascii() && word.chars().any(|c| c.is_whitespace() || c == '\u{feff}') {
            // Words glued by white space that is not ASCII: count one and be careful.
            self.ambiguous();
        }
        let property = self.after_dot;
        let keyword = !property && NESTING_WORDS.contains(&word);
        let ended = !property && self.newline && (self.before == Before::Operator || self.word == "}");
        let boundary = ended
            && match self.word {
                // Declarations stand in lists of statements only: never inside of one statement.
                _ if DECLARATION_WORDS.contains(&word) => true,
                _ if !self.lenient => false,
                // After `)` a statement may be the body of the one before.
                ")" => !keyword || word == "await" || STATEMENT_WORDS.contains(&word),
                _ => !keyword || STATEMENT_WORDS.contains(&word) || BLOCK_WORDS.contains(&word),
            };
        if self.semicolon && word == "else" {
            // The statement goes on.
            self.semicolon = false;
        }
        self.start_token();
        if boundary || (!property && word == "case") {
            let body = self.word == ")";
            self.reset();
            if boundary && !body {
                // No `else` can belong to what stood before.
                self.level().elses = 0;
            }
        }
        if keyword {
            let level = self.level();
            if word == "else" {
                level.elses += 1
            } else {
                level.here.chain += 1
            }
            self.check();
        }
        let operand = !property && (OPERAND_WORDS.contains(&word));
        self.before = match word {
            _ if operand => Before::Operand,
            "of" if !property => Before::Unclear,
            _ => Before::Operator,
        };
        self.word = word;
        self.newline = false;
        // `after_dot` stays readable for a following `(`; a further word clears it.
        self.after_dot = property;
        if !property {
            self.after_dot = false;
        }
    }

    fn operator(&mut self, byte: u8, next: u8) {
        if byte == b'<' && self.bytes[self.at..].starts_with(b"<!--") {
            // The parser takes the rest of the line for a comment and then refuses it.
            self.skip_line();
            return;
        }
        let prefix = self.before != Before::Operator || self.word == "async";
        let after_paren = self.word == ")";
        self.start_token();
        match byte {
            b'<' => {
                let level = self.level();
                level.here.angles += 1;
                level.here.speculation += u32::from(prefix);
            }
            b':' if after_paren => self.level().annotated = true,
            b'=' if next == b'>' => {
                let level = self.level();
                if level.annotated {
                    level.annotated = false;
                    level.here.speculation += 1;
                }
            }
            _ => {}
        }
        // A run of one character is one operator, except where each is an operator of its own.
        let mut length = 1;
        if matches!(byte, b'=' | b'&' | b'|' | b'*') {
            while self.peek(length) == byte && length < 3 {
                length += 1;
            }
        }
        if byte == b'=' && next == b'>' {
            length = 2;
        }
        if byte != b'>' || next == b'=' {
            self.count_chain();
        }
        let postfix_bang = byte == b'!' && next != b'=' && self.before == Before::Operator && !self.newline;
        let unclear_bang = byte == b'!' && self.before == Before::Unclear;
        let double = (byte == b'+' || byte == b'-') && next == byte;
        self.at += length;
        if byte == b'.' || (byte == b'?' && next == b'.') {
            if byte == b'?' {
                self.at += 1;
            }
            let spread = byte == b'.' && next == b'.';
            self.operand_follows();
            self.after_dot = !spread;
            return;
        }
        if postfix_bang {
            self.operand_ended();
            return;
        }
        self.operand_follows();
        if double {
            self.at += 1;
            self.count_chain();
            self.before = Before::Unclear;
        } else if unclear_bang || byte == b'>' {
            // `>` closes type arguments or compares.
            self.before = Before::Unclear;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> Option<Refusal> {
        limit(text).map(|(_, refusal)| refusal)
    }

    #[test]
    fn deep_texts_are_refused_and_flat_ones_are_not() {
        let n = 3_000;
        let deep = [
            "(",
            "[",
            "{",
            "!",
            "- ",
            "a=>",
            "if(1)",
            "if(1);else ",
            "a+",
            "`${",
            "a?b:",
            "a.b.",
            "new ",
            "keyof ",
            "typeof ",
        ];
        for unit in deep {
            assert_eq!(refusal(&unit.repeat(n)), Some(Refusal::Deep), "{unit}");
        }
        let flat = [
            "f(a, b);",
            "a,",
            "[1,2],",
            "const a = b.c(d)\n",
            "a.b()\n",
            "if (a) { b() }\n",
            "\"((((\",",
            "`((((`,",
            "/((((/,",
            "// ((((\n",
            "/* ((( */",
            "case 1: f();\n",
            "x = { a: 1, b: [2] };",
            "let a: Map<string, b[]> = new Map();\n",
            "function f() { return 1 }\n",
            "await t.x({ a: 1 })\n",
            "a / b / c;",
            "x!.y / 2;",
            "if (a) /'/.test(b);",
        ];
        for unit in flat {
            assert_eq!(refusal(&unit.repeat(n)), None, "{unit}");
        }
    }

    #[test]
    fn what_could_be_two_things_is_not_trusted_in_large_texts() {
        let hidden = format!("x = {{}} /'/ {} /'/", "(".repeat(100));
        assert_eq!(refusal(&hidden), None);
        assert_eq!(
            refusal(&format!("{hidden}{}", "a.b;".repeat(20_000))),
            Some(Refusal::Ambiguous)
        );
    }

    #[test]
    fn speculation_is_bounded_by_the_size_of_the_text() {
        assert_eq!(refusal(&"<T>(".repeat(4)), None);
        assert_eq!(refusal(&"<T>(".repeat(24)), Some(Refusal::Speculation));
        assert_eq!(refusal(&"a?(b):c=>".repeat(24)), Some(Refusal::Speculation));
        assert_eq!(refusal(&"async<T>(".repeat(24)), Some(Refusal::Speculation));
        assert_eq!(refusal(&"a<".repeat(200)), Some(Refusal::Angles));
        assert_eq!(
            refusal(&"const f = (a: string): number => 1;\n".repeat(500)),
            None
        );
        assert_eq!(refusal(&"const f = <T,>(a: T): T => a;\n".repeat(500)), None);
    }
}
