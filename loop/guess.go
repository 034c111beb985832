package loop

import (
	"bytes"
	"slices"
	"strings"

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

func isKey(text []byte) bool {
	text = bytes.TrimSpace(text)
	var memory [16]byte
	return len(text) <= 1 || isOneOf(alike.Lower(memory[:], text), "tab", "enter", "return", "escape", "esc", "up", "down",
		"left", "right", "pageup", "pagedown", "page_up", "page_down", "page down", "page up", "space", "backspace",
		"yes", "no", "y\\n", "n\\n", "ctrl+c", "ctrl-c", "home", "end")
}

// guess returns the class of a step: the declared one, or that of what it looks like. Empty is none.
func (d *Detector) guess(s *Step, h *hints) Class {
	if s.Class.declared() {
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

// command looks at the words of a shell command.
func (h *hints) command(text []byte) {
	if _, meant, found := bytes.Cut(text, []byte("&& ")); found && bytes.HasPrefix(text, []byte("cd ")) {
		text = meant
	}
	text = bytes.TrimSpace(text)
	switch {
	case len(text) > 2 && len(bytes.Trim(text, "cd ./-")) == 0 && text[0] == 'c': // it leads elsewhere each time
		h.class = Drive
	case bytes.Contains(text, []byte("sleep ")), waitsFor(text):
		h.class = Wait
	case runs(text, changing), beginsWith(text, []string{"sed -i", "perl -i"}), contains(text, []string{" > ", " >> "}):
		h.class, h.appends = Change, bytes.Contains(text, []byte(" >> "))
	case bytes.Contains(text, []byte("<<")): // a program that may write, or read something again
		h.class, h.script = Change, true
	case runs(text, finders):
		h.class, h.search = Look, true
	case runs(text, showers), runs(text, readers):
		h.class, h.state = Look, runs(text, showers)
	default:
		h.computes, h.state = runs(text, computing), runs(text, remote)
		h.named(text)
	}
}

// named takes the name of a command for that of a tool, as agents have commands of their own, such as search_dir.
func (h *hints) named(text []byte) {
	name, _, _ := strings.Cut(string(text[:min(len(text), 64)]), " ")
	if strings.ContainsAny(name, "./\n") || h.computes || name == "set" {
		return
	}
	if class := classOfName(name); class == Look || class == Change {
		h.class, h.search = class, class == Look && named(name, searching)
	}
}

func runs(text []byte, list []string) bool {
	return slices.ContainsFunc(list, func(words string) bool {
		return bytes.HasPrefix(text, []byte(words)) && (len(text) == len(words) || text[len(words)] == ' ')
	})
}

// waitsFor reports whether all that a command is for is to pass time, or to ask whether something is there yet.
func waitsFor(text []byte) bool {
	return runs(text, waiters) ||
		runs(text, probes) && contains(text, closing) ||
		runs(text, inspecting) && contains(text, healths) ||
		runs(text, requesting) && contains(text, healths) && contains(text, failing)
}

var (
	waiters = []string{"sleep", "watch", "wait", "until", "while", "pg_isready", "wait-on", "wait-for-it",
		"wait-for-it.sh", "systemctl is-active", "kubectl wait", "kubectl rollout status", "docker wait", "gh run watch",
		"gh pr checks", "redis-cli ping", "mysqladmin ping"}
	probes     = []string{"nc", "ncat", "netcat"}
	closing    = []string{" -z", " -vz", " -zv", " -nz", " -zn"} // the connection at once
	inspecting = []string{"docker inspect", "podman inspect"}
	requesting = []string{"curl"}
	healths    = []string{"health", "Health", "ready", "livez", "/live", "/ping"}
	failing    = []string{" -f", " -sf", " -fs", " -sSf", " -Ssf", " --fail", " --retry"}

	changing = []string{"mkdir", "rm", "mv", "cp", "touch", "tee", "patch", "chmod", "chown", "ln", "unzip",
		"git add", "git commit", "git apply", "git checkout", "git switch", "git merge", "git rebase", "git push", "git mv",
		"git rm", "git stash", "git reset", "git revert", "git restore", "git tag", "git cherry-pick",
		"npm install", "npm get", "npm add", "pip install", "pip3 install", "yarn install", "yarn add", "pnpm install",
		"pnpm add", "apt install", "apt-get install", "go install", "go get", "cargo install", "cargo add",
		"kubectl apply", "kubectl create", "kubectl delete", "kubectl scale", "kubectl patch", "kubectl set", "kubectl label",
		"kubectl annotate", "kubectl drain", "kubectl cordon", "kubectl uncordon", "kubectl rollout restart",
		"kubectl rollout undo", "systemctl start", "systemctl stop", "systemctl restart", "systemctl reload",
		"systemctl enable", "systemctl disable"}
	finders = []string{"grep", "rg", "ag", "find", "fd", "locate"}
	readers = []string{"cat", "head", "tail", "wc", "file", "echo", "git", "sed -n", "nl"}
	showers = []string{"ls", "pwd", "tree", "stat", "git status", "git branch", "git diff", "git stash list",
		"git worktree list", "env", "printenv", "which", "history", "uname", "whoami"}
	// remote is commands that show how things stand elsewhere, where they change by themselves.
	remote = []string{"gh run view", "gh run list", "kubectl get", "docker ps"}
	// computing is commands that build, test or compute: where one fails, nothing changes by itself.
	computing = []string{"pytest", "jest", "vitest", "rspec", "phpunit", "ctest", "tox", "eslint", "tsc", "mypy",
		"ruff", "flake8", "pylint", "shellcheck", "gcc", "g++", "cc", "clang", "rustc", "javac",
		"python -c", "python3 -c", "python -m", "python3 -m", "npx", "node -e", "ruby -e", "perl -e", "php -r",
		"go test", "go build", "go vet", "go run", "cargo test", "cargo build", "cargo check", "cargo clippy", "cargo run",
		"npm test", "npm run", "yarn test", "yarn build", "pnpm test", "pnpm build", "make", "dotnet test", "dotnet build",
		"mvn test", "mvn verify", "mvn compile", "gradle test", "gradle build", "swift test", "swift build", "bazel test",
		"bazel build"}
)
