package release

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
)

// ErrUntidy is returned by [Copy.TidyDiff] if [Copy.Tidy] would change a file.
var ErrUntidy = errors.New("a go.mod or go.sum is not tidy: run make tidy")

// Tidy runs go mod tidy for each module of the checkout. It leaves no sums of these modules in a go.sum.
func (c *Copy) Tidy(ctx context.Context) error {
	if err := c.tidy(ctx); err != nil {
		return err
	}
	for _, module := range c.modules.All {
		for _, name := range []string{"go.mod", "go.sum"} {
			name = filepath.Join(module.Dir, name)
			if err := update(filepath.Join(c.root, name), filepath.Join(c.tree.dir, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// TidyDiff prints what Tidy would change, and returns [ErrUntidy] if that is anything. It does not change the checkout.
func (c *Copy) TidyDiff(ctx context.Context) error {
	before, err := c.tree.state(ctx)
	if err != nil {
		return err
	}
	if err := c.tidy(ctx); err != nil {
		return err
	}
	after, err := c.tree.state(ctx)
	if err != nil || before == after {
		return err
	}
	diff, err := c.tree.diff(ctx, before, after)
	if err != nil {
		return err
	}
	_, _ = io.WriteString(c.out, diff)
	return ErrUntidy
}

// tidy tidies the copy. It serves each module again once that is tidy, because the requirements of a module depend on
// those of the modules that it requires.
func (c *Copy) tidy(ctx context.Context) error {
	if err := c.publishAll(ctx); err != nil {
		return err
	}
	for _, module := range c.modules.All {
		c.heading(module.Path)
		if err := c.tidyModule(ctx, module); err != nil {
			return err
		}
		if err := c.publishAgain(ctx, module); err != nil {
			return err
		}
	}
	return nil
}

// tidyModule tidies one module. It drops own sums before, because they may be of another state, and again after.
func (c *Copy) tidyModule(ctx context.Context, module *Module) error {
	sums := filepath.Join(c.dir(module), "go.sum")
	if err := c.modules.dropOwnSums(sums); err != nil {
		return err
	}
	if err := c.tool.run(ctx, c.dir(module), "mod", "tidy"); err != nil {
		return err
	}
	return c.modules.dropOwnSums(sums)
}

// publishAgain serves the current state of a module instead of the one that was served before.
func (c *Copy) publishAgain(ctx context.Context, module *Module) error {
	state, err := c.tree.state(ctx)
	if err != nil {
		return err
	}
	if err := c.tool.forget(module.Path, c.version); err != nil {
		return err
	}
	return c.proxy.publish(c.tree, state, module, c.version)
}

// update copies the file like to name if they differ. If like does not exist, update removes name.
func update(name, like string) error {
	want, err := os.ReadFile(like)
	if os.IsNotExist(err) {
		if err := os.Remove(name); !os.IsNotExist(err) {
			return err
		}
		return nil
	}
	if err != nil {
		return err
	}
	if got, err := os.ReadFile(name); err == nil && bytes.Equal(got, want) {
		return nil
	}
	return os.WriteFile(name, want, 0o644)
}
