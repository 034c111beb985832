package loop

import (
	"bytes"
	"slices"

	"github.com/seed62658d38/watchdog/internal/alike"
)

const (
	maxSign  = 400 // bytes: outcomes that say that there is nothing, or that something failed, are short and say so early
	maxTexts = 4   // of one outcome are looked at
)

// A signs is what an outcome says about itself.
type signs struct {
	failed   bool
	nothing  bool // a phrase, an empty list, a null or an empty string says that there is nothing
	content  bool // something else is there
	underWay bool
	computes bool // set before: it is the outcome of a command that builds or tests
	broken   bool // and the text speaks of a failure, not only at its beginning
	awaited  bool // the text says that something is not there, which may come
	busy     bool // it failed for now, as a service that is overloaded does
	noTool   bool // the tool that was called does not exist
	exited   bool // it says with what code a command ended
	lists    int  // how many lists are around the value
	texts    int  // how many texts were looked at
}

func (s *signs) empty() bool { return s.nothing && !s.content }

func (s *signs) Reset() { *s = signs{computes: s.computes} }

// Object heeds a field that says what failed.
func (s *signs) Object(key []byte) { s.failed = s.failed || isOneOf(key, "error", "err") }

// List counts the lists around a value.
func (s *signs) List(step int) {
	s.lists += step
	s.nothing = s.nothing || step == 0
}

func (s *signs) Literal(key []byte, name string) {
	if name == "null" {
		s.nothing = true
		return
	}
	switch string(key) {
	case "error", "is_error", "isError", "failed":
		s.failed = s.failed || name == "true"
	case "success", "ok", "succeeded", "accepted":
		s.failed = s.failed || name == "false"
	}
	s.underWay = s.underWay || s.lists == 0 && isUnfinished(key, name)
}

// isUnfinished reports whether a field says that something goes on.
func isUnfinished(key []byte, name string) bool {
	ended := isOneOf(key, "done", "finished", "completed", "complete", "ready", "is_done", "isDone", "is_ready", "isReady")
	return name == "false" && ended ||
		name == "true" && isOneOf(key, "running", "pending", "in_progress", "inProgress")
}

func (s *signs) Number(key, literal []byte) {
	s.content = s.content || s.lists > 0
	switch string(key) {
	case "exit_code", "exitCode", "returncode", "exit_status":
		s.failed, s.exited = string(literal) != "0", true // its text may speak of errors as it likes
	case "code", "status", "status_code":
		s.failed = s.failed || len(literal) == 3 && literal[0] >= '4'
		s.busy = s.busy || isOneOf(literal, "429", "502", "503", "504", "529")
	}
}

// String looks at the value of a field, or at the element of a list in it. A field that repeats the question, or that
// says nothing about the answer, is no content.
func (s *signs) String(_ int, key, text []byte) {
	switch string(key) {
	case "error", "err":
		s.failed = s.failed || len(text) > 0
	case "status", "state", "phase":
		s.underWay = s.underWay || s.isState(text)
		s.failed = s.failed || isOneOf(text, "error", "failed", "failure")
	case "", "text", "content", "message", "output", "result", "stdout", "stderr", "detail":
		s.Text(text)
	case "query", "q", "pattern", "path", "search", "term", "type", "url", "cwd", "index", "scope", "glob", "regex",
		"sort", "order", "file", "filename", "directory", "dir", "note", "hint", "suggestion":
	default:
		s.content = true
	}
}

// Text looks at text that people read.
func (s *signs) Text(text []byte) {
	text = bytes.TrimSpace(text)
	if len(text) == 0 {
		s.nothing = true
		return
	}
	if s.texts++; s.texts > maxTexts {
		s.content = true
		return
	}
	var memory [maxSign]byte
	head := alike.Lower(memory[:], text)
	s.failure(head, len(text) > maxSign)
	if len(text) > maxSign {
		s.content = true
		return
	}
	s.underWay = s.underWay || isUnderWay(head)
	nothing := contains(head, nothings)
	s.nothing, s.content = s.nothing || nothing, s.content || !nothing && !s.failed
}

// failure looks at the head of a text for a failure, and for what kind it is.
func (s *signs) failure(head []byte, long bool) {
	first := head[:min(len(head), 120)]
	s.exit(head)
	if !s.exited {
		s.failed = s.failed || beginsWith(head, failures) || contains(first, errorPhrases)
	}
	s.noTool = s.noTool || contains(first, noTools)
	s.broken = s.broken || s.computes && contains(head, breaks)
	if s.failed || !long {
		s.busy = s.busy || s.isBusy(first, head)
		s.awaited = s.awaited || contains(head, comings) && !contains(first, nevers)
	}
}

// isBusy reports whether a service failed for now. What says how a command ended may say what it was first.
func (s *signs) isBusy(first, head []byte) bool {
	return contains(first, busies) || s.exited && contains(head, busies)
}

// exit takes the code with which a command ended, where the text says it.
func (s *signs) exit(head []byte) {
	for _, form := range exits {
		if _, code, found := bytes.Cut(head, []byte(form)); found && len(code) > 0 && code[0] >= '0' && code[0] <= '9' {
			s.failed, s.exited = code[0] != '0', true
		}
	}
}

var (
	// exits are what is before the code with which a command ended, as agents say it.
	exits    = []string{"exited with code ", "exit code ", "exit code: ", "exit status ", "<returncode>"}
	failures = []string{"error", "failed", "failure", "fatal", "traceback", "exception", "permission denied",
		"denied", "cannot ", "can't ", "could not ", "couldn't ", "unable to ", "invalid ", "refused", "rejected",
		"bash: ", "sh: ", "npm error", "npm err!", "no such file", "not found", "no match", "no changes",
		"no replacement", "nothing to ", "usage: ", "panic: ", "blocked: ", "blocked by "}
	errorPhrases = []string{"error:", "not found", "no such file", "did not match", "no replacement", "no changes",
		"does not exist", "permission denied", "already exists", "failed to ", "syntax error(s)", "sh: line ",
		"could not ", "found 0 times", "0 occurrences", "0 replacements"}
	breaks = []string{"fail", "error", "exception", "panic", "traceback", "fatal", "abort"}
	busies = []string{"connection refused", "connection reset", "connection timed out", "econnre", "etimedout",
		"no route to", "unreachable", "resolve host", "unavailable", "try again", "overloaded", "rate limit", "gateway",
		"too many requests"}
	comings = []string{"connect", "no route", "timed out", "timeout", "refused", "unreachable", "lock", "unavailable",
		"not found", "no such", "does not exist", "nxdomain", "resolve host", "try again", "retry"}
	nevers  = []string{": cd: ", "command not found"}
	noTools = []string{"invalid tool", "unknown tool", "unavailable tool", "no such tool", "tool not found",
		"no tool named", "tool does not exist"}
	nothings = []string{"no match", "no results", "no files", "no entries", "no hits", "no data", "no more ", "no rows",
		"no documents", "no lines", "no content", "no such", "no references", "no items", "no records", "nothing found",
		"nothing matches", "not found", "0 results", "0 matches", "0 hits", "found 0", "zero results", "zero matches",
		"past the end", "beyond the end", "beyond end", "beyond eof", "past eof", "end of file", "out of range", "exceeds ",
		"does not exist", "doesn't exist", "did not match", "is empty", "(empty)", "(no output)", "no output", "none found",
		"file has only", "shorter than the"}
	underWays = []string{"pending", "in progress", "in_progress", "in-progress", "inprogress", "queued", "running",
		"waiting", "starting", "initializing", "initialising", "provisioning", "creating", "not ready", "notready",
		"not yet", "processing", "building", "deploying", "still ", "scheduled", "connecting", "loading", "installing",
		"downloading", "uploading", "warming", "0/1 ", "progressing", "syncing", "indexing", "rendering", "active",
		"no new output after"}
	// finals are in the states that something ends in or stays in.
	finals = []string{"done", "ok", "success", "succeeded", "complete", "finish", "fail", "error", "cancel", "closed",
		"open", "resolved", "merged", "ready", "healthy", "stopped", "terminated", "exited", "expired", "reject",
		"approved", "passed", "denied", "deleted", "enabled", "disabled", "unknown", "none"}
)

func isUnderWay(text []byte) bool {
	var memory [maxSign]byte
	head := alike.Lower(memory[:], text)
	return contains(head, underWays) && !bytes.Contains(head, []byte("result of running"))
}

// isState reports whether the value of a state says that something goes on. In a list it is that of one of many.
func (s *signs) isState(text []byte) bool { return isUnderWay(text) || s.lists == 0 && !isFinal(text) }

// isFinal reports whether a state does not change by itself. Any other is one that may, in whatever language.
func isFinal(text []byte) bool {
	var memory [maxSign]byte
	state := alike.Lower(memory[:], bytes.TrimSpace(text))
	return contains(state, finals) && !contains(state, []string{"incomplete", "unfinished", "not "}) ||
		isOneOf(state, "", "up", "down", "on", "off", "live")
}

func beginsWith(text []byte, list []string) bool {
	return slices.ContainsFunc(list, func(p string) bool { return bytes.HasPrefix(text, []byte(p)) })
}

func contains(text []byte, list []string) bool {
	return slices.ContainsFunc(list, func(p string) bool { return bytes.Contains(text, []byte(p)) })
}

func isOneOf(word []byte, list ...string) bool { return slices.Contains(list, string(word)) }
