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

// A Scenario describes one process tree. [Scenario.In] makes a copy that can be started once.
type Scenario struct {
	// Name describes the tree in a few words.
	Name string
	// Processes is how many processes register when the whole tree is started.
	Processes int
	// LeaderExits says that the first process exits with status 0 after it has started the others.
	LeaderExits bool
	// SurvivesTERM says that SIGTERM does not end the first process.
	SurvivesTERM bool

	leader   part
	token    string
	registry string
}

// In returns the scenario with a new token and a registry file in the directory dir, an absolute path.
func (s Scenario) In(dir string) Scenario {
	s.token = fmt.Sprintf("%s%018d", tokenStart, rand.Uint64N(1e18))
	s.registry = filepath.Join(dir, "registry-"+s.token)
	return s
}

// Token returns the first argument of all processes of the scenario. No other process has it. It is a number of
// seconds, so that a sleep command accepts it.
func (s Scenario) Token() string { return s.token }

// Registry returns the path of the registry file.
func (s Scenario) Registry() string { return s.registry }

// Command returns the command to start. The path is the caller's own program, args[0] is the program's name, and env is
// the whole environment. It panics if the program cannot be found, or before In.
func (s Scenario) Command() (path string, args, env []string) {
	path, err := os.Executable()
	if err != nil || s.token == "" {
		panic(fmt.Sprintf("escape: command of %q: %v; call In first", s.Name, err))
	}
	return path, s.leader.args(path, s.token, s.registry), os.Environ()
}

// Ready waits until all processes are started. It returns an error if that takes longer than timeout.
func (s Scenario) Ready(timeout time.Duration) error {
	until := time.Now().Add(timeout)
	for {
		text, err := os.ReadFile(s.registry)
		lines := bytes.Count(text, []byte{'\n'})
		if lines >= s.Processes {
			return nil
		}
		if time.Now().After(until) {
			return errors.Join(fmt.Errorf("start %q: %d of %d processes after %v", s.Name, lines, s.Processes, timeout), err)
		}
		time.Sleep(time.Millisecond)
	}
}

// Survivors returns the living processes that Alive or WithToken finds.
func (s Scenario) Survivors() []Process { return merge(Alive(s.registry), WithToken(s.token)) }

// End kills all survivors, again and again until none is left.
func (s Scenario) End() {
	for left := s.Survivors(); len(left) > 0; left = s.Survivors() {
		for _, p := range left {
			p.kill()
		}
		time.Sleep(time.Millisecond)
	}
}

// A part is one process of a scenario, or several equal ones.
type part struct {
	Copies        int              `json:",omitempty"` // 0 means 1
	Ignore        []syscall.Signal `json:",omitempty"`
	ExitsOnSignal bool             `json:",omitempty"` // exits with status 0 on INT and TERM
	Setsid        bool             `json:",omitempty"` // starts a new session
	EmptyEnv      bool             `json:",omitempty"` // has an empty environment
	KeepsStdio    bool             `json:",omitempty"` // keeps its parent's descriptors 0 to 2; without it they are closed
	ClosesFDs     bool             `json:",omitempty"` // closes all descriptors
	SetsLimit     bool             `json:",omitempty"` // changes its RLIMIT_LOCKS
	StopsItself   bool             `json:",omitempty"` // stops itself
	Children      []part           `json:",omitempty"`
	Then          then             `json:",omitempty"`
}

// A then is what a process does after it has started its children.
type then string

const (
	stays          then = ""                // waits until it is ended
	exits          then = "exits"           // exits at once
	respawns       then = "respawns"        // starts a child again whenever it exits
	churns         then = "churns"          // starts short-lived children, which do not register, as fast as it can
	restartsParent then = "restarts parent" // starts its parent again when it exits, and exits
	endsMainThread then = "ends main"       // lives on in its other threads; it starts no children
	startsTrees    then = "starts trees"    // starts a sleeper and a daemon as process trees
)

// onlySleeps reports whether a sleep command can play the part.
func (p part) onlySleeps() bool {
	text, _ := json.Marshal(p) // cannot fail for plain values
	plain, _ := json.Marshal(part{Copies: p.Copies, EmptyEnv: p.EmptyEnv, Setsid: p.Setsid, KeepsStdio: p.KeepsStdio})
	return bytes.Equal(text, plain)
}

func (p part) args(name, token, registry string) []string {
	text, _ := json.Marshal(p) // cannot fail for plain values
	return []string{name, token, roleName, registry, string(text)}
}

// The token is the first argument of a role, and roleName the second.
const (
	tokenStart = "300."
	roleName   = "escape-role"
)

func atoi(text string) int {
	n, _ := strconv.Atoi(text) // 0 is no PID
	return n
}
