//go:build linux

package escape

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// A Scenario is one shape of a tree, to be started once. It is not for concurrent use before [Scenario.In] has made it a tree of its own.
type Scenario struct {
	// Name says what the shape is, in a few words.
	Name string
	// Processes is how many lines the registry has when all of the tree has been started.
	Processes int
	// Ends says that the first process ends by itself, with status 0, once the others were started.
	Ends bool
	// Deaf says that the first process does not end on SIGTERM.
	Deaf bool

	leader   part
	token    string
	registry string
}

// In returns the scenario with a token of its own and a registry in the folder, which must be an absolute path.
func (s Scenario) In(folder string) Scenario {
	s.token = fmt.Sprintf("%s%018d", tokenStart, rand.Uint64N(1e18))
	s.registry = filepath.Join(folder, "registry-"+s.token)
	return s
}

// Token is the first argument of each of the scenario's processes, and of no other process. It is a number of seconds, which a sleep can take too.
func (s Scenario) Token() string { return s.token }

// Registry is the file in which the scenario's processes write themselves down.
func (s Scenario) Registry() string { return s.registry }

// Command returns what to start. The path is the caller's own program, args[0] is its name; env is all of the environment. It panics if that program cannot be
// found, or for a scenario that is in no folder.
func (s Scenario) Command() (path string, args, env []string) {
	path, err := os.Executable()
	if err != nil || s.token == "" {
		panic(fmt.Sprintf("escape: command of %q: %v; a scenario is started from a folder, see In", s.Name, err))
	}
	return path, s.leader.args(path, s.token, s.registry), os.Environ()
}

// Ready waits until all processes have been started, and returns an error if they were not in that time.
func (s Scenario) Ready(most time.Duration) error {
	until := time.Now().Add(most)
	for {
		text, err := os.ReadFile(s.registry)
		lines := bytes.Count(text, []byte{'\n'})
		if lines >= s.Processes {
			return nil
		}
		if time.Now().After(until) {
			return errors.Join(fmt.Errorf("start %q: %d of %d processes after %v", s.Name, lines, s.Processes, most), err)
		}
		time.Sleep(time.Millisecond)
	}
}

// Survivors are what both proofs find alive.
func (s Scenario) Survivors() []Process { return merge(Alive(s.registry), Holding(s.token)) }

// End kills what is left, found by both proofs, until nothing is: for the one who starts scenarios with something that leaves survivors.
func (s Scenario) End() {
	for left := s.Survivors(); len(left) > 0; left = s.Survivors() {
		for _, p := range left {
			p.kill()
		}
		time.Sleep(time.Millisecond)
	}
}

// A part is one process of a scenario, or several alike.
type part struct {
	Copies   int              `json:",omitempty"` // 0 is one
	Ignore   []syscall.Signal `json:",omitempty"`
	Polite   bool             `json:",omitempty"` // ends with 0 on INT and TERM
	Session  bool             `json:",omitempty"` // begins one of its own
	Bare     bool             `json:",omitempty"` // has no environment
	Pipes    bool             `json:",omitempty"` // keeps its parent's descriptors 0 to 2, which are nothing otherwise
	Closed   bool             `json:",omitempty"` // closes all descriptors
	Limit    bool             `json:",omitempty"` // sets its RLIMIT_LOCKS
	Stopped  bool             `json:",omitempty"` // stops itself
	Children []part           `json:",omitempty"`
	Then     then             `json:",omitempty"`
}

// then is what a process does when it has started its children.
type then string

const (
	stays    then = ""         // until it is ended
	leaves   then = "leaves"   // ends at once
	respawns then = "respawns" // starts a child again whenever it ends
	churns   then = "churns"   // starts short-lived children, which are not written down, as fast as it can
	revives  then = "revives"  // starts its parent again when that has ended, and ends
	hosts    then = "hosts"    // guards a sleeper and a daemon by a process tree of its own
)

// light reports that the process only needs to be there, which a sleep can do.
func (p part) light() bool {
	text, _ := json.Marshal(p) // of plain values: it cannot fail
	plain, _ := json.Marshal(part{Copies: p.Copies, Bare: p.Bare, Session: p.Session, Pipes: p.Pipes})
	return bytes.Equal(text, plain)
}

func (p part) args(name, token, registry string) []string {
	text, _ := json.Marshal(p) // of plain values: it cannot fail
	return []string{name, token, roleName, registry, string(text)}
}

// How the arguments of a role begin.
const (
	tokenStart = "300."
	roleName   = "escape-role"
)

func number(text string) int {
	n, _ := strconv.Atoi(text) // 0 is nobody's
	return n
}
