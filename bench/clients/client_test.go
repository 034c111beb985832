package clients_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Texts that must be nowhere but in a call.
const (
	keyCanary    = "sk-canary-of-the-key-5d1f"
	promptCanary = "the canary of the prompt 7f3e"
	answerCanary = "the canary of the answer 9c1a"
	// mainPrompt is the user's, and tells a conversation from those of sub-agents. Clients show it.
	mainPrompt = "Please look around, number by number."
)

// A client is a program that calls models.
type client struct {
	name string
	// command is the program and its arguments, in the folder of the clients.
	command []string
	env     []string
	// memory is the file of a project that the client puts into its prompt.
	memory string
	// settings are a file of the home directory, and what is in it.
	settings [2]string
	// agents says that it has sub-agents.
	agents bool
	// node is the oldest that it runs with.
	node int
	// least is a cap with which it answers a question for which it needs one tool, in an empty project, as the docs have
	// it. Its first call counts by its bytes.
	least int64
}

const bin = "node_modules/.bin/"

// codex takes its base as a flag. The arguments of sh are the rest.
const codex = `exec "$0" exec --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox ` +
	`-c openai_base_url="$OPENAI_BASE_URL" "$@"`

var all = append([]client{
	{
		name: "Claude Code", command: []string{bin + "claude", "--dangerously-skip-permissions", "-p", mainPrompt},
		env: []string{"IS_SANDBOX=1"}, memory: "CLAUDE.md", agents: true, least: 55_000,
	},
	{
		name: "Codex", command: []string{"sh", "-c", codex, bin + "codex", mainPrompt}, memory: "AGENTS.md", agents: true,
		least: 80_000,
	},
	{
		name: "Gemini CLI", command: []string{bin + "gemini", "--yolo", "--skip-trust", "-p", mainPrompt},
		memory:   "GEMINI.md",
		settings: [2]string{".gemini/settings.json", `{"security":{"auth":{"selectedType":"gemini-api-key"}}}`},
		agents:   true, node: 20, least: 55_000,
	},
}, sdks()...)

// sdks are programs of the SDKs, that stream and that do not.
func sdks() (all []client) {
	for _, kind := range []string{"stream", "whole"} {
		for _, sdk := range []struct {
			name, file, provider string
			node                 int
		}{
			{"Anthropic SDK", "anthropic.mjs", "", 18},
			{"OpenAI SDK, Responses", "responses.mjs", "", 18},
			{"OpenAI SDK, Chat Completions", "chat.mjs", "", 18},
			{"Google Gen AI SDK", "genai.mjs", "", 20},
			{"AI SDK, Anthropic", "aisdk.mjs", "anthropic", 18},
			{"AI SDK, OpenAI", "aisdk.mjs", "openai", 18},
			{"AI SDK, Google", "aisdk.mjs", "google", 18},
		} {
			all = append(all, client{
				name: sdk.name + ", " + kind, command: []string{"node", sdk.file, kind, promptCanary, mainPrompt},
				env: []string{"PROVIDER=" + sdk.provider}, node: sdk.node,
				least: 5_000,
			})
		}
	}
	return all
}

// line returns the command line, with the paths of what is installed.
func (c client) line() (line []string) {
	for _, word := range c.command {
		if path := filepath.Join(clients, word); word != "sh" && word != "node" {
			if _, err := os.Stat(path); err == nil {
				word = path
			}
		}
		line = append(line, word)
	}
	return line
}

// TestMain installs the clients, once for all tests. Where they cannot be had there is nothing to test, which is said.
func TestMain(m *testing.M) {
	if why := install(); why != "" {
		fmt.Println("skipped: " + why)
		return
	}
	for _, c := range all {
		if node < c.node {
			fmt.Printf("skipped: %s needs node %d, and this is %d\n", c.name, c.node, node)
		}
	}
	code := m.Run()
	_ = os.RemoveAll(filepath.Dir(program))
	os.Exit(code)
}

var (
	clients string // the folder in which they are installed
	program string // watchdog
	node    int    // the major version of node
)

// install installs what package-lock.json says into a folder of the user's cache, and builds watchdog. It returns why
// there is nothing to test.
func install() (why string) {
	version, err := exec.Command("node", "--version").Output()
	if err != nil {
		return "there is no node here; install it with apt-get install nodejs npm"
	}
	major, _, _ := strings.Cut(strings.TrimPrefix(string(version), "v"), ".")
	node, _ = strconv.Atoi(major)
	sum := sha256.New()
	for _, name := range []string{"package.json", "package-lock.json"} {
		_, _ = sum.Write(must(os.ReadFile(name)))
	}
	_, _ = sum.Write(version)
	cache := must(os.UserCacheDir())
	clients = filepath.Join(cache, "watchdog-clients", hex.EncodeToString(sum.Sum(nil)[:8]))
	if _, err := os.Stat(filepath.Join(clients, "installed")); err != nil {
		if why := download(); why != "" {
			return why
		}
	}
	for _, path := range must(filepath.Glob("testdata/*.mjs")) {
		check(os.WriteFile(filepath.Join(clients, filepath.Base(path)), must(os.ReadFile(path)), 0o600))
	}
	program = filepath.Join(must(os.MkdirTemp("", "clients")), "watchdog")
	build := exec.Command("go", "build", "-o", program, ".")
	build.Dir, build.Env = "../../cmd/watchdog", append(os.Environ(), "GOWORK=")
	if out, err := build.CombinedOutput(); err != nil {
		panic(string(out))
	}
	return ""
}

// download has npm install the clients.
func download() (why string) {
	began := time.Now()
	check(os.RemoveAll(clients))
	check(os.MkdirAll(clients, 0o700))
	for _, name := range []string{"package.json", "package-lock.json"} {
		check(os.WriteFile(filepath.Join(clients, name), must(os.ReadFile(name)), 0o600))
	}
	npm := exec.Command("npm", "ci", "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error")
	npm.Dir = clients
	if out, err := npm.CombinedOutput(); err != nil {
		return fmt.Sprintf("npm cannot install the clients: %v\n%s", err, out)
	}
	check(os.WriteFile(filepath.Join(clients, "installed"), nil, 0o600))
	fmt.Printf("npm installed the clients in %d s\n", int(time.Since(began).Seconds()))
	return ""
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// patience is how long a client may take, on a busy machine.
const patience = 3 * time.Minute

// flags are further flags of the meter, to try what it does with them.
var flags = strings.Fields(os.Getenv("CLIENTTEST_FLAGS"))

// A run is a client that has run under a meter.
type run struct {
	client

	folder         string
	status         int
	stdout, stderr string
	ended          time.Time
	report         report
}

// A report is what watchdog prints with --json.
type report struct {
	Reason     string `json:"reason"`
	ModelCalls int    `json:"model_calls"`
	Spent      []struct {
		Limit         string
		Used, Allowed int64
	}
}

// used are the tokens that the meter counted.
func (r *run) used() int64 {
	if len(r.report.Spent) == 0 {
		return -1
	}
	return r.report.Spent[0].Used
}

// under runs the client under a meter with a cap, in a home and a project of its own.
func (c client) under(t *testing.T, u *upstream, tokens int64, env ...string) *run {
	t.Helper()
	if node < c.node {
		t.Skipf("skipped: %s needs node %d, and here is %d", c.name, c.node, node)
	}
	r := &run{client: c, folder: t.TempDir()}
	for _, name := range []string{"home", "project", "artifacts"} {
		require.NoError(t, os.Mkdir(filepath.Join(r.folder, name), 0o700))
	}
	if c.memory != "" {
		r.write(t, filepath.Join("project", c.memory), promptCanary+"\n")
	}
	if c.settings[0] != "" {
		r.write(t, filepath.Join("home", c.settings[0]), c.settings[1])
	}
	words := append([]string{
		"run", "--store", r.store(), "--id", "agent", "--artifacts", filepath.Join(r.folder, "artifacts"), "--meter",
		"--tokens", strconv.FormatInt(tokens, 10), "--json", "--wall-clock", "150s",
	}, flags...)
	cmd := exec.Command(program, append(append(words, "--"), c.line()...)...)
	cmd.Dir, cmd.Env = filepath.Join(r.folder, "project"), append(r.environ(u), env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, cmd.Start())
	late := time.AfterFunc(patience, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	err := cmd.Wait()
	r.ended = time.Now()
	late.Stop()
	if failed := new(exec.ExitError); err != nil && !errors.As(err, &failed) {
		require.NoError(t, err)
	}
	r.status, r.stdout, r.stderr = cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()
	lines := strings.Split(strings.TrimSpace(r.stderr), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &r.report); err != nil {
		t.Fatalf("no report, status %d: %s", r.status, tail(r.stderr))
	}
	return r
}

func (r *run) write(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(r.folder, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

func (r *run) store() string { return "sqlite:" + filepath.Join(r.folder, "watchdog.db") }

// environ is the environment of a person who has keys, and no settings.
func (r *run) environ(u *upstream) []string {
	return slices.Concat([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(r.folder, "home"), "TERM=dumb",
		"ANTHROPIC_API_KEY=" + keyCanary, "OPENAI_API_KEY=" + keyCanary, "CODEX_API_KEY=" + keyCanary,
		"GEMINI_API_KEY=" + keyCanary,
	}, u.environ, r.env)
}

// why is what watchdog tells about the run afterwards.
func (r *run) why(t *testing.T, flags ...string) string {
	t.Helper()
	words := append([]string{"why", "--store", r.store()}, append(flags, "agent")...)
	text, err := exec.Command(program, words...).CombinedOutput()
	require.NoError(t, err, string(text))
	return string(text)
}

// stopped is when the limit stopped the run.
func (r *run) stopped(t *testing.T) time.Time {
	t.Helper()
	var story struct{ End struct{ At time.Time } }
	require.NoError(t, json.Unmarshal([]byte(r.why(t, "--json")), &story))
	return story.End.At
}

// page is the run's page.
func (r *run) page(t *testing.T) string {
	t.Helper()
	cmd := exec.Command(program, "serve", "--store", r.store(), "--page", "--listen", "127.0.0.1:0")
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	line, err := bufio.NewReader(stderr).ReadString('\n')
	require.NoError(t, err)
	_, address, _ := strings.Cut(line, "the page is at ")
	address, _, found := strings.Cut(address, ";")
	require.True(t, found, line)
	resp, err := http.Get(address + "?run=agent")
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode, string(text))
	return string(text)
}

// soon is how long a client may take to end, and longer where more programs run than there are processors.
func soon(idle time.Duration) time.Duration {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return idle
	}
	first, _, _ := strings.Cut(string(text), " ")
	load, _ := strconv.ParseFloat(first, 64)
	return time.Duration(max(1, load/float64(runtime.NumCPU())) * float64(idle))
}

// tail is the end of a text, for a failure.
func tail(text string) string { return text[max(0, len(text)-2000):] }
