package loop

import "bytes"

// A hints is what an input says about the class of its tool, for tools without one.
type hints struct {
	class  Class
	search bool // a command that searches
	placed bool // a number says where to read
	words  words
}

// namesPlace reports whether a field says where to read, such as offset, page and start_line.
func namesPlace(key []byte) bool {
	var memory [32]byte
	name := lower(memory[:], key)
	return len(key) <= len(memory) && contains(name, places)
}

var places = phrases("offset", "page", "start", "line", "from", "skip", "cursor", "begin", "position", "range", "after")

// string looks at a field of an input.
func (h *hints) string(depth int, key, text []byte) {
	h.words.add(text)
	if depth > 1 || h.class != "" {
		return
	}
	switch {
	case isOneOf(key, "action", "method"):
		h.class = classOfName(string(text))
	case isOneOf(key, "command", "cmd", "script", "bash"):
		h.command(text)
	case isOneOf(key, "key", "keys"), isOneOf(key, typedFields...) && isKey(text):
		h.class = Drive
	}
}

var typedFields = []string{"text", "input", "chars", "data", "stdin", "line", "value"}

// isKey reports whether a text is what one types to go on.
func isKey(text []byte) bool {
	text = bytes.TrimSpace(text)
	var memory [16]byte
	return len(text) <= 1 || isOneOf(lower(memory[:], text), "tab", "enter", "return", "escape", "esc", "up", "down",
		"left", "right", "pageup", "pagedown", "page_up", "page_down", "page down", "page up", "space", "backspace",
		"yes", "no", "y\\n", "n\\n", "ctrl+c", "ctrl-c", "home", "end")
}

// command looks at the words of a shell command.
func (h *hints) command(text []byte) {
	if bytes.HasPrefix(text, []byte("cd ")) { // cd somewhere && what is meant
		if _, rest, found := bytes.Cut(text, []byte("&& ")); found {
			text = rest
		}
	}
	first, rest, _ := bytes.Cut(bytes.TrimSpace(text), []byte(" "))
	second, _, _ := bytes.Cut(rest, []byte(" "))
	switch {
	case isOneOf(first, "sleep", "watch", "wait", "until", "while") || bytes.Contains(text, []byte("sleep ")):
		h.class = Wait
	case changes(first, second) || contains(text, redirections):
		h.class = Change
	case isOneOf(first, "grep", "rg", "ag", "find", "fd", "locate"):
		h.class, h.search = Look, true
	case isOneOf(first, "ls", "cat", "head", "tail", "wc", "pwd", "tree", "stat", "file", "git"):
		h.class = Look
	}
}

var redirections = phrases(" > ", " >> ", "<<")

// changes reports whether a command that begins with these two words changes something.
func changes(first, second []byte) bool {
	switch string(first) {
	case "mkdir", "rm", "mv", "cp", "touch", "tee", "patch", "chmod", "chown", "ln", "unzip":
		return true
	case "sed", "perl":
		return bytes.HasPrefix(second, []byte("-i"))
	case "git":
		return isOneOf(second, "add", "commit", "apply", "checkout", "switch", "merge", "rebase", "push", "mv", "rm", "stash",
			"reset", "revert", "restore", "tag", "cherry-pick")
	case "npm", "pip", "pip3", "yarn", "pnpm", "apt", "go", "cargo":
		return isOneOf(second, "install", "get", "add")
	}
	return false
}

// guess returns the class of a step: the declared one, or that of what it looks like. Empty is none.
func guess(s *Step, h *hints) Class {
	if s.Class.declared() {
		return s.Class
	}
	class := classOfName(s.Tool)
	if class == "" || h.class == Wait || h.class == Drive {
		return h.class
	}
	return class
}

// classOfName returns the class that the words of a name stand for, or none. If there are several, what drives counts
// first, then what waits, then what changes.
func classOfName(name string) (class Class) {
	rank := 0
	words := nameReader{name: name}
	for word := words.next(); len(word) > 0; word = words.next() {
		if w := wordClasses[string(word)]; w.rank > rank {
			class, rank = w.class, w.rank
		}
	}
	return class
}

// searches reports whether a tool searches, by a word of its name.
func searches(tool string) bool {
	words := nameReader{name: tool}
	for word := words.next(); len(word) > 0; word = words.next() {
		if isOneOf(word, searchWords...) {
			return true
		}
	}
	return false
}

var searchWords = []string{
	"search", "grep", "find", "glob", "query", "lookup", "rg", "locate", "recall", "retrieve",
}

type rankedClass struct {
	class Class
	rank  int
}

var wordClasses = func() map[string]rankedClass {
	all := map[string]rankedClass{}
	for rank, list := range []struct {
		class Class
		words []string
	}{
		{Look, []string{
			"read", "grep", "search", "find", "glob", "list", "ls", "view", "get", "fetch", "query", "lookup", "cat", "open",
			"show", "describe", "inspect", "recall", "retrieve", "screenshot", "snapshot", "test", "lint", "check",
		}},
		{Change, []string{
			"edit", "write", "create", "update", "delete", "remove", "replace", "insert", "patch", "append", "move", "rename",
			"apply", "save", "set", "add", "put", "post", "send", "commit", "upload", "install", "attach", "multiedit",
		}},
		{Wait, []string{"wait", "sleep", "poll", "status", "watch", "await", "delay", "monitor"}},
		{Drive, []string{
			"scroll", "key", "keys", "press", "keypress", "keyboard", "hotkey", "stdin", "swipe", "type", "click", "tap",
			"mouse", "hover", "drag", "keystroke", "keystrokes", "fill", "submit",
			"gdb", "pdb", "lldb", "dlv", "debugger", "repl",
		}},
	} {
		for _, word := range list.words {
			all[word] = rankedClass{list.class, rank + 1}
		}
	}
	return all
}()

// A nameReader reads the words of a name such as send_keys or sendKeys. It needs no memory but its own.
type nameReader struct {
	name   string
	memory [32]byte
}

// next returns the next word in lower case. It is valid until the next call, and empty after the last one.
func (r *nameReader) next() []byte {
	word := r.memory[:0]
	for i := 0; i < len(r.name); i++ {
		b := r.name[i]
		begins := 'A' <= b && b <= 'Z' && i > 0 && 'a' <= r.name[i-1] && r.name[i-1] <= 'z'
		if len(word) > 0 && (begins || !isLetter(b)) {
			r.name = r.name[i:]
			return word
		}
		if isLetter(b) && len(word) < len(r.memory) {
			word = append(word, b|0x20)
		}
	}
	r.name = ""
	return word
}
