package loop

import (
	"bytes"

	"github.com/seed62658d38/watchdog/internal/alike"
)

// A hints is what an input says about the class of its tool, for tools without one.
type hints struct {
	class    Class
	search   bool // a command that searches
	state    bool // a command that shows how things stand
	script   bool // a command that gets a program
	appends  bool // a command that appends to something
	computes bool // a command that builds or tests
	words    words
}

func (h *hints) Reset()                   { *h = hints{} }
func (h *hints) Literal([]byte, string)   {}
func (h *hints) Number(_, literal []byte) { h.words.add(literal) }
func (h *hints) Text(text []byte)         { h.words.add(text) }
func (h *hints) List(int)                 {}
func (h *hints) Object([]byte)            {}

// String looks at a field of an input.
func (h *hints) String(depth int, key, text []byte) {
	if !alike.Why(key) {
		h.words.add(text)
	}
	if depth > 2 || h.class != "" {
		return
	}
	switch {
	case isOneOf(key, "command", "cmd", "script", "bash"): // also of an array, of which one says what is run
		h.command(text)
	case depth > 1:
	case isOneOf(key, "action", "method", "op", "operation"):
		h.class = classOfName(string(text))
	case isOneOf(key, "key", "keys"), isOneOf(key, typedFields...) && isKey(text):
		h.class = Drive
	}
}

var typedFields = []string{"text", "input", "chars", "data", "stdin", "line", "value"}

// isKey reports whether a text is what one types to go on.
func isKey(text []byte) bool {
	text = bytes.TrimSpace(text)
	var memory [16]byte
	return len(text) <= 1 || isOneOf(alike.Lower(memory[:], text), "tab", "enter", "return", "escape", "esc", "up", "down",
		"left", "right", "pageup", "pagedown", "page_up", "page_down", "page down", "page up", "space", "backspace",
		"yes", "no", "y\\n", "n\\n", "ctrl+c", "ctrl-c", "home", "end")
}

// guess returns the class of a step: the declared one, or that of what it looks like. Empty is none.
func (d *Detector) guess(s *Step, h *hints) Class {
	if s.Class.declared() || d.without.lacks(theGuess) {
		return s.Class
	}
	class := classOfName(s.Tool)
	if class == "" || h.class == Wait || h.class == Drive {
		return h.class
	}
	return class
}

// classOfName returns the class that the words of a name stand for, or none: first what drives, then what waits, then
// what changes. A git status is no poll: git does nothing by itself.
func classOfName(name string) (class Class) {
	rank, git := 0, false
	words := nameReader{name: name}
	for word := words.next(); len(word) > 0; word = words.next() {
		if git = git || string(word) == "git"; git && string(word) == "status" {
			word = append(word[:0], "show"...)
		}
		if c, r := classOfWord(string(word)); r > rank {
			class, rank = c, r
		}
	}
	return class
}

// named reports whether a word of a name is in the list.
func named(tool string, list []string) bool {
	words := nameReader{name: tool}
	for word := words.next(); len(word) > 0; word = words.next() {
		if isOneOf(word, list...) {
			return true
		}
	}
	return false
}

// Words of the names of tools.
var (
	searching = []string{"search", "grep", "find", "glob", "query", "lookup", "rg", "locate", "recall", "retrieve"}
	receiving = []string{"mail", "mails", "email", "emails", "gmail", "inbox", "mailbox", "message", "messages", "sms",
		"otp", "notification", "notifications"} // what others send
	stating = []string{"status", "state", "list", "ls", "get", "fetch", "show", "describe", "check", "info", "details",
		"navigate", "todo", "todos", "task", "tasks"} // how things stand
)

// classOfWord returns the class that a word stands for, and its rank. A map would be linked by every program.
func classOfWord(word string) (class Class, rank int) {
	switch word {
	case "read", "grep", "search", "find", "glob", "list", "ls", "view", "get", "fetch", "query", "lookup", "cat", "open",
		"show", "describe", "inspect", "recall", "retrieve", "screenshot", "snapshot", "test", "lint", "check", "navigate":
		return Look, 1
	case "edit", "write", "create", "update", "delete", "remove", "replace", "insert", "patch", "append", "move", "rename",
		"apply", "save", "set", "add", "put", "post", "send", "commit", "upload", "install", "attach", "multiedit",
		"deploy", "publish", "restart", "rollback", "modify", "cancel", "import":
		return Change, 2
	case "wait", "sleep", "poll", "status", "watch", "await", "delay", "monitor":
		return Wait, 3
	case "scroll", "key", "keys", "press", "keypress", "keyboard", "hotkey", "stdin", "swipe", "type", "click", "tap",
		"mouse", "hover", "drag", "keystroke", "keystrokes", "fill", "submit",
		"gdb", "pdb", "lldb", "dlv", "debugger", "repl":
		return Drive, 4
	}
	return "", 0
}

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
		if len(word) > 0 && (begins(r.name, i) || !isLetter(b)) {
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
