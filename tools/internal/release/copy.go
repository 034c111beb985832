package release

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Copy is a copy of the checkout, and a proxy that serves its modules at the version that they require each other at.
// Both are in a temporary directory, which Close removes. A Copy is not safe for concurrent use.
type Copy struct {
	modules *Modules // in the copy
	root    string   // of the checkout
	version string
	out     io.Writer

	temp  string
	tree  *tree
	proxy *proxy
	tool  *goTool
}

// NewCopy copies the checkout whose go.work is in root. It returns the error of [Modules.Version] if there is one. The
// methods of the Copy write headings and the output of the go command to out.
func NewCopy(ctx context.Context, root string, out io.Writer) (_ *Copy, err error) {
	modules, err := Open(root)
	if err != nil {
		return nil, err
	}
	version, err := modules.Version()
	if err != nil {
		return nil, err
	}
	temp, err := os.MkdirTemp("", "watchdog-release-")
	if err != nil {
		return nil, err
	}
	c := &Copy{root: modules.root, version: version, out: out, temp: temp}
	if err := c.fill(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Copy) fill(ctx context.Context) (err error) {
	if c.tree, err = copyTree(ctx, c.root, filepath.Join(c.temp, "tree")); err != nil {
		return err
	}
	if c.modules, err = Open(c.tree.dir); err != nil {
		return err
	}
	c.proxy = &proxy{dir: filepath.Join(c.temp, "proxy")}
	c.tool, err = newGoTool(ctx, c.modules.main().Path, c.proxy.url(), filepath.Join(c.temp, "modules"), c.out)
	return err
}

// Close removes the copy.
func (c *Copy) Close() error { return os.RemoveAll(c.temp) }

// Build compiles and vets each module without go.work.
func (c *Copy) Build(ctx context.Context) error {
	if err := c.publishAll(ctx); err != nil {
		return err
	}
	for _, module := range c.modules.All {
		c.heading(module.Path)
		for _, args := range [][]string{{"build", "-o", os.DevNull, "./..."}, {"vet", "./..."}} {
			if err := c.tool.run(ctx, c.dir(module), args...); err != nil {
				return err
			}
		}
	}
	return nil
}

// publishAll serves every module, and adds their sums to each go.sum of the copy.
func (c *Copy) publishAll(ctx context.Context) error {
	state, err := c.tree.state(ctx)
	if err != nil {
		return err
	}
	for _, module := range c.modules.All {
		if err := c.proxy.publish(c.tree, state, module, c.version); err != nil {
			return err
		}
	}
	return c.addOwnSums()
}

// addOwnSums adds the sums of what the proxy serves to each go.sum of the copy. It comes after the zips were made,
// because a release has no such sums.
func (c *Copy) addOwnSums() error {
	for _, module := range c.modules.All {
		if len(c.modules.requires(module)) == 0 {
			continue
		}
		if err := addSums(filepath.Join(c.dir(module), "go.sum"), c.proxy.sums); err != nil {
			return err
		}
	}
	return nil
}

func (c *Copy) dir(module *Module) string { return filepath.Join(c.tree.dir, module.Dir) }

func (c *Copy) heading(text string) { _, _ = fmt.Fprintln(c.out, "==", text) }
