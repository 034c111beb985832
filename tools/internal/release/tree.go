package release

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A tree is a copy of the checkout in a git repository of its own, because a proxy makes its zips with git archive.
type tree struct{ dir string }

// copyTree copies from root to dir the files that git tracks, and those that it does not ignore.
func copyTree(ctx context.Context, root, dir string) (*tree, error) {
	// A clone that CI works on may belong to another user. Git refuses it, unless it is told that this is safe.
	names, err := git(ctx, root, "-c", "safe.directory=*",
		"ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate")
	if err != nil {
		return nil, err
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(names, "\x00"), "\x00") {
		if err := copyFile(filepath.Join(root, name), filepath.Join(dir, name)); err != nil {
			return nil, err
		}
	}
	_, err = git(ctx, dir, "init", "--quiet")
	return &tree{dir: dir}, err
}

// copyFile copies a regular file. It skips a file that was deleted but is still tracked, and a symbolic link, which no
// module zip has.
func copyFile(from, to string) error {
	info, err := os.Lstat(from)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil || !info.Mode().IsRegular() {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, info.Mode()&fs.ModePerm)
}

// state records the current files as a git tree and returns its ID.
func (t *tree) state(ctx context.Context) (string, error) {
	// By force, because a file may be tracked although it is ignored.
	if _, err := git(ctx, t.dir, "add", "--all", "--force"); err != nil {
		return "", err
	}
	id, err := git(ctx, t.dir, "write-tree")
	return strings.TrimSpace(id), err
}

// diff returns the difference between two states.
func (t *tree) diff(ctx context.Context, before, after string) (string, error) {
	return git(ctx, t.dir, "diff", "--no-color", "--no-ext-diff", before, after)
}

// git runs git in dir and returns its output.
func git(ctx context.Context, dir string, args ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return stdout.String(), nil
}
