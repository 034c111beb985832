package stall_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// An elsewhere is a daemon that no guarded command started, and that does work for whoever asks it on its socket.
type elsewhere struct {
	tb     testing.TB
	socket string
}

// newElsewhere starts the daemon. It ends with the test, and so does its work.
func newElsewhere(tb testing.TB) elsewhere {
	tb.Helper()
	dir, err := os.MkdirTemp("", "e") //nolint:usetesting // the path of a socket has at most 107 bytes
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	e := elsewhere{tb, filepath.Join(dir, "s")}
	line := childCommand(tb, "elsewhere:"+e.socket)
	cmd := exec.Command(line[0], line[1:]...)
	stdin, err := cmd.StdinPipe()
	require.NoError(tb, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(tb, err)
	require.NoError(tb, cmd.Start())
	tb.Cleanup(func() {
		_ = stdin.Close()
		assert.NoError(tb, cmd.Wait())
	})
	_, err = bufio.NewReader(stdout).ReadString('\n')
	require.NoError(tb, err)
	return e
}

// step returns the step that asks the daemon: start, end or state.
func (e elsewhere) step(word string) string { return "ask:" + word + ":" + e.socket }

// alive reports whether the work of a command is alive.
func (e elsewhere) alive(cmd *exec.Cmd) bool {
	e.tb.Helper()
	_, token, _ := strings.Cut(tokenOf(cmd), "=")
	answer, err := request(e.socket, "state "+token)
	require.NoError(e.tb, err)
	return answer == "alive\n"
}

// ask:WORD:SOCKET asks the daemon, with the token in the environment as the name of the work.
func ask(argument string) error {
	word, socket, _ := strings.Cut(argument, ":")
	answer, err := request(socket, word+" "+os.Getenv(tokenVariable))
	if err == nil && answer != "done\n" {
		err = fmt.Errorf("the daemon answered %q", answer)
	}
	return err
}

func request(socket, text string) (answer string, err error) {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if _, err := fmt.Fprintln(conn, text); err != nil {
		return "", err
	}
	return bufio.NewReader(conn).ReadString('\n')
}

// elsewhere:SOCKET is the daemon. It ends when its standard input does, with its work.
func workElsewhere(socket string) error {
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	all := &works{alive: map[string]*work{}}
	go func() {
		for conn, err := listener.Accept(); err == nil; conn, err = listener.Accept() {
			go all.serve(conn)
		}
	}()
	fmt.Println(ready)
	_, _ = io.Copy(io.Discard, os.Stdin)
	return all.endAll()
}

// works is what the daemon does, by its names.
type works struct {
	mu    sync.Mutex
	alive map[string]*work
}

// A work is a process of the daemon.
type work struct {
	process *os.Process
	ended   chan struct{}
}

func (w *works) serve(conn net.Conn) {
	defer conn.Close()
	text, _ := bufio.NewReader(conn).ReadString('\n')
	word, name, _ := strings.Cut(strings.TrimSpace(text), " ")
	w.mu.Lock()
	defer w.mu.Unlock()
	fmt.Fprintln(conn, w.do(word, name))
}

func (w *works) do(word, name string) (answer string) {
	one := w.alive[name]
	switch {
	case word == "start":
		cmd := exec.Command(os.Args[0], childArg, "stay")
		if err := cmd.Start(); err != nil {
			return err.Error()
		}
		one := &work{cmd.Process, make(chan struct{})}
		go func() {
			_ = cmd.Wait()
			close(one.ended)
		}()
		w.alive[name] = one
	case one == nil:
		return "no such work: " + name
	case word == "end":
		one.end()
	default:
		return one.state()
	}
	return "done"
}

func (w *work) state() string {
	select {
	case <-w.ended:
		return "dead"
	default:
		return "alive"
	}
}

func (w *work) end() {
	_ = w.process.Kill()
	<-w.ended
}

func (w *works) endAll() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, one := range w.alive {
		one.end()
	}
	return nil
}
