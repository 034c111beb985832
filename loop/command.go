package loop

import (
	"bytes"
	"slices"
	"strings"
)

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

// runs reports whether a command begins with the words of one of the list.
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
