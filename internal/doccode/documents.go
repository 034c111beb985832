package doccode

import (
	"io/fs"
	"path"
	"regexp"
	"strings"
)

var (
	qualified = regexp.MustCompile(`(?:^|[^\w./])([a-z]\w*)\.([A-Z]\w*)(?:\.([A-Z]\w*))?`)
	linked    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
)

// checkDocument checks a Markdown file: the linked files and headings, and the names of our packages in quotes and in
// Go code blocks.
func (c *nameChecker) checkDocument(name string) error {
	text, err := fs.ReadFile(c.files, name)
	if err != nil {
		return err
	}
	for _, line := range linesOf(string(text)) {
		switch {
		case line.language == "go":
			c.checkCode(name, line.number, line.text)
		case !line.inBlock:
			c.checkTargets(name, line.number, line.text)
			c.checkMentions(name, line.number, line.text)
			for _, span := range quoted.FindAllString(line.text, -1) {
				c.checkCode(name, line.number, strings.Trim(span, "`"))
			}
		}
	}
	return nil
}

// checkCode checks the names of our packages in a piece of Go code.
func (c *nameChecker) checkCode(file string, line int, code string) {
	for _, match := range qualified.FindAllStringSubmatch(code, -1) {
		inPackage, name, member := match[1], match[2], match[3]
		known, found := false, inPackage == "main"
		for _, p := range c.packages {
			if p.name == inPackage {
				known, found = true, found || hasMember(p.names, name, member)
			}
		}
		if known && !found {
			c.report(file, line, "%s does not exist", strings.TrimSuffix(inPackage+"."+name+"."+member, "."))
		}
	}
}

// hasMember reports whether a package has a name. It checks the member only if the name is a type.
func hasMember(of names, name, member string) bool {
	return of.has(name) && (member == "" || of.types[name] == nil || of.has(name+"."+member))
}

// checkTargets checks that the linked files of a line exist, and have the linked headings. It does not check URLs.
func (c *nameChecker) checkTargets(file string, number int, line string) {
	for _, match := range linked.FindAllStringSubmatch(line, -1) {
		target, anchor, _ := strings.Cut(match[1], "#")
		if strings.Contains(target, ":") {
			continue
		}
		name := file
		if target != "" {
			name = path.Join(path.Dir(file), target)
		}
		text, err := fs.ReadFile(c.files, name)
		switch {
		case err != nil && !c.hasFile(name): // a folder cannot be read
			c.report(file, number, "%s does not exist", target)
		case anchor != "" && path.Ext(name) == ".md" && !anchors(string(text))[anchor]:
			c.report(file, number, "%s has no heading #%s", name, anchor)
		}
	}
}
