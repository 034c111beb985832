package doccheck

import (
	"io/fs"
	"path"
	"regexp"
	"strings"
)

var (
	quoted    = regexp.MustCompile("`[^`]+`")
	qualified = regexp.MustCompile(`(?:^|[^\w./])([a-z]\w*)\.([A-Z]\w*)(?:\.([A-Z]\w*))?`)
	linked    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
)

// checkDocument checks a Markdown file: the linked files and headings, and the names of our packages in quotes and in
// Go code blocks.
func (c *checker) checkDocument(name string) error {
	text, err := fs.ReadFile(c.tree, name)
	if err != nil {
		return err
	}
	fence := "" // "" outside of code blocks, else "in " and the language
	for i, line := range strings.Split(string(text), "\n") {
		if language, ok := strings.CutPrefix(strings.TrimSpace(line), "```"); ok {
			fence = toggle(fence, language)
			continue
		}
		if err := c.checkLine(name, i+1, line, fence); err != nil {
			return err
		}
	}
	return nil
}

// toggle enters or leaves a code block.
func toggle(fence, language string) string {
	if fence != "" {
		return ""
	}
	return "in " + language
}

func (c *checker) checkLine(file string, number int, line, fence string) error {
	switch fence {
	case "in go":
		return c.checkCode(file, number, line)
	case "":
		c.checkTargets(file, number, line)
		c.checkMentions(file, number, line)
		for _, span := range quoted.FindAllString(line, -1) {
			if err := c.checkCode(file, number, strings.Trim(span, "`")); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkCode checks the names of our packages in a piece of Go code.
func (c *checker) checkCode(file string, line int, code string) error {
	packages, err := c.packages()
	if err != nil {
		return err
	}
	for _, match := range qualified.FindAllStringSubmatch(code, -1) {
		inPackage, name, member := match[1], match[2], match[3]
		targets := packages[inPackage]
		if len(targets) > 0 && !anyHas(targets, name, member) {
			c.report(file, line, "%s does not exist", strings.TrimSuffix(inPackage+"."+name+"."+member, "."))
		}
	}
	return nil
}

// anyHas reports whether one of the packages has the name. It checks the member only if the name is a type.
func anyHas(packages []*source, name, member string) bool {
	for _, p := range packages {
		if !p.names.has(name) {
			continue
		}
		if member == "" || !p.names.types[name] || p.names.has(name+"."+member) {
			return true
		}
	}
	return false
}

// packages returns the packages of the tree by their names.
func (c *checker) packages() (map[string][]*source, error) {
	if c.byName != nil {
		return c.byName, nil
	}
	byName := map[string][]*source{}
	err := fs.WalkDir(c.tree, ".", func(dir string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case !entry.IsDir():
			return nil
		case skipped(dir):
			return fs.SkipDir
		}
		s, err := c.library.readDir(location{dir: dir})
		if s != nil && s.name != "" && s.name != "main" {
			byName[s.name] = append(byName[s.name], s)
		}
		return err
	})
	c.byName = byName
	return byName, err
}

// checkTargets checks that the linked files of a line exist, and have the linked headings. It does not check URLs.
func (c *checker) checkTargets(file string, number int, line string) {
	for _, match := range linked.FindAllStringSubmatch(line, -1) {
		target, anchor, _ := strings.Cut(match[1], "#")
		if strings.Contains(target, ":") {
			continue
		}
		name := file
		if target != "" {
			name = path.Join(path.Dir(file), target)
		}
		switch {
		case !c.hasFile(name):
			c.report(file, number, "%s does not exist", target)
		case anchor != "" && path.Ext(name) == ".md" && !c.hasAnchor(name, anchor):
			c.report(file, number, "%s has no heading #%s", name, anchor)
		}
	}
}

func (c *checker) hasFile(name string) bool {
	_, err := fs.Stat(c.tree, name)
	return err == nil
}
