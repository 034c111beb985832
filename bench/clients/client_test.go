package clients_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
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
