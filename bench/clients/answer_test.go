package clients_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// An answer is what a model says.
type answer struct {
	thinking, text string
	tools          []tool
	cut            bool // by the request's maximum
}

// A tool is a call of one.
type tool struct {
	name string
	args object
}

func (t tool) json() string {
	text, err := json.Marshal(t.args)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// tokens are those that the answer is billed for.
func (a answer) tokens() int64 { return a.thought() + a.said() }

func (a answer) thought() int64 { return tokensOf(a.thinking) }

func (a answer) said() int64 {
	n := tokensOf(a.text)
	for _, t := range a.tools {
		n += tokensOf(t.name + t.json())
	}
	return n
}

// within returns the answer as the request's maximum has it, and whether it is cut.
func (a answer) within(most int64) (answer, bool) {
	if most == 0 || a.tokens() <= most {
		return a, false
	}
	a.tools = nil
	for _, part := range []*string{&a.thinking, &a.text} {
		*part = (*part)[:min(int64(len(*part)), 4*most)]
		most -= tokensOf(*part)
	}
	return a, true
}

// commands are the tools that clients have, the first that a request has is called. Each does next to nothing.
var commands = []struct {
	name string
	args func(n int) object
}{
	{"look", func(n int) object { return object{"number": n} }},
	{"Bash", func(n int) object { return object{"command": command(n), "description": "Say a number"} }},
	{"exec_command", func(n int) object { return object{"cmd": command(n)} }},
	{"shell_command", func(n int) object { return object{"command": command(n)} }},
	{"exec", func(n int) object {
		return object{"input": fmt.Sprintf(`text(await tools.exec_command({cmd: %q}))`, command(n))}
	}},
	{"shell", func(n int) object { return object{"command": []string{"sh", "-c", command(n)}} }},
	{"run_shell_command", func(n int) object { return object{"command": command(n), "description": "Say a number"} }},
}

func command(n int) string { return fmt.Sprintf("echo this is step %d", n) }

// starters are the tools by which clients start a sub-agent.
var starters = []struct {
	name string
	args func(n int) object
}{
	{"Agent", func(n int) object {
		return object{
			"description": fmt.Sprintf("Part %d", n), "subagent_type": "general-purpose", "run_in_background": false,
			"prompt": task(n),
		}
	}},
	{"invoke_agent", func(n int) object { return object{"agent_name": "generalist", "prompt": task(n)} }},
	{"spawn_agent", func(n int) object {
		return object{"task_name": fmt.Sprintf("part_%d", n), "message": task(n), "fork_turns": "none"}
	}},
}

func task(n int) string { return fmt.Sprintf("Look at part %d, please.", n) }

// next is what the model of a request says.
func (u *upstream) next(a *ask) answer {
	if a.form != nil {
		text, _ := json.Marshal(filled(a.form))
		return answer{text: string(text)}
	}
	said := answer{text: words(a.results, 24) + answerCanary}
	if a.thinks {
		said.thinking = words(a.results, 40)
	}
	if a.main && a.most > 0 && a.most < u.script.fills {
		said.text = words(a.results, int(u.script.fills)) + answerCanary
	}
	said.tools = u.script.calls(a)
	return said
}

// calls are the tools that the model calls.
func (s script) calls(a *ask) (all []tool) {
	turns := s.turns
	if !a.main {
		turns = min(3, turns)
	}
	if a.main && a.results == 0 && s.agents > 0 {
		for _, start := range starters {
			if slices.Contains(a.tools, start.name) {
				for n := range s.agents {
					all = append(all, tool{start.name, start.args(n)})
				}
				return all
			}
		}
	}
	for _, c := range commands {
		if a.results < turns && slices.Contains(a.tools, c.name) {
			return []tool{{c.name, c.args(a.results)}}
		}
	}
	return nil
}

// words are so many that do not repeat: some clients take repetition for a loop.
func words(seed, n int) string {
	var s strings.Builder
	for i := range n {
		fmt.Fprintf(&s, "w%x ", (seed*1009+i*31)*2654435761%0xfffff)
	}
	return s.String()
}

// filled returns something that a schema of JSON takes.
func filled(schema object) any {
	switch kind := strings.ToLower(text(schema, "type")); kind {
	case "object":
		o := object{}
		for name, of := range inner(schema, "properties") {
			if of, ok := of.(object); ok {
				o[name] = filled(of)
			}
		}
		return o
	case "array":
		return []any{}
	case "integer", "number":
		return 10
	case "boolean":
		return false
	}
	return "something"
}

// list is a member that is a list of objects.
func list(of object, name string) (all []object) {
	elements, _ := of[name].([]any)
	for _, e := range elements {
		if o, ok := e.(object); ok {
			all = append(all, o)
		}
	}
	return all
}

func text(of object, name string) string {
	s, _ := of[name].(string)
	return s
}

func number(of object, name string) int64 {
	n, _ := of[name].(float64)
	return int64(n)
}

func inner(of object, name string) object {
	o, _ := of[name].(object)
	return o
}
