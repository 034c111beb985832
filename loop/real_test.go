package loop_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/loop"
)

// told gives a detector turns of one step, and tells the run whenever it is asked about. It returns the first turns
// that are asked about and ended, 0 where none is.
func told(d *loop.Detector, steps ...loop.Step) (asked, ended int) {
	var f finding
	for n, s := range steps {
		f.step(d, n, []loop.Step{s})
	}
	return f.asked, f.ended
}

// times is that many of what of returns for each number.
func times(n int, of func(n int) loop.Step) (all []loop.Step) {
	for i := range n {
		all = append(all, of(i))
	}
	return all
}

// after returns the step with that Gap.
func after(gap time.Duration, s loop.Step) loop.Step {
	s.Gap = gap
	return s
}

// TestThinking protects a run at the speed of a model: thinking is not polling, and a poll is not ended.
func TestThinking(t *testing.T) {
	random := rand.New(rand.NewPCG(6, 27))
	for _, c := range []struct {
		command, outcome string
		ended            int
	}{
		{"./run.sh", "done", 0},
		{"python solve.py", "[1, 2, 3]", 0},
		{"./deploy.sh", "Error: missing the field region", 0},
		{"cat notes.txt", "one\ntwo", 0},
		{"grep -rn port .", "a.go:3: port", 0},
		{"sed -i s/a/b/ x", "", 5},
		{"pytest -q", "1 failed, 2 passed", 0},
		{"ls", "a.go", 0},
		{"python3 - <<'E'\nprint(get('http://localhost/jobs/42'))\nE", "40 of 90", 0},
	} {
		for _, gaps := range [][2]int{{5, 8}, {5, 29}, {1, 29}} {
			t.Run(fmt.Sprintf("%s with gaps of %v seconds", c.command, gaps), func(t *testing.T) {
				asked, ended := told(newDetector(t, loop.Config{}), times(12, func(int) loop.Step {
					gap := time.Duration(gaps[0]+random.IntN(gaps[1]-gaps[0]+1)) * time.Second
					return after(max(gap, time.Second), bash(c.command, c.outcome))
				})...)
				require.Equal(t, 3, asked)
				if gaps[0] >= 5 || c.ended > 0 || c.command == "ls" {
					require.Equal(t, c.ended, ended)
				}
			})
		}
	}
	t.Run("a run that is strict ends that, too", func(t *testing.T) {
		asked, ended := told(newDetector(t, loop.Config{Mode: loop.Strict}),
			times(12, func(int) loop.Step { return after(2*time.Minute, bash("ls", "a.go")) })...)
		require.Equal(t, []int{3, 5}, []int{asked, ended})
	})
	t.Run("what is slower is a poll", func(t *testing.T) {
		asked, ended := told(newDetector(t, loop.Config{}),
			times(90, func(int) loop.Step { return after(30*time.Second, bash("./run.sh", "done")) })...)
		require.Equal(t, []int{21, 0}, []int{asked, ended})
	})
	t.Run("what something else comes between that is new is no loop", func(t *testing.T) {
		asked, _ := told(newDetector(t, loop.Config{}), times(60, func(n int) loop.Step {
			if n%2 == 0 {
				return after(9*time.Second, bash("./check-all.sh", "good"))
			}
			return after(9*time.Second, bash(fmt.Sprint("restore ", n), "restored"))
		})...)
		require.Zero(t, asked)
	})
	t.Run("what cannot be polled ends a run with polls between", func(t *testing.T) {
		asked, ended := told(newDetector(t, loop.Config{}), times(20, func(n int) loop.Step {
			if n%2 == 0 {
				return after(9*time.Second, bash("./run.sh", "done"))
			}
			return look("a.go", "package a")
		})...)
		require.Equal(t, []int{6, 10}, []int{asked, ended})
	})
}

// TestLookAtState protects who looks again at how things stand: that it stays is no loop, and ends nothing.
func TestLookAtState(t *testing.T) {
	for name, s := range map[string]loop.Step{
		"git status":                 bash("git status", "On branch main\nnothing to commit"),
		"git status in a folder":     bash("cd /src && git status --short", " M a.go"),
		"a list of tasks":            {Tool: "TodoRead", Outcome: []byte(`[{"content":"write it","status":"open"}]`)},
		"one without an error":       {Tool: "TodoRead", Outcome: []byte(`{"error":"","todo":"write it"}`)},
		"a declared list of tasks":   {Tool: "list_tasks", Class: loop.Look, Outcome: []byte(`["write it"]`)},
		"a customer":                 {Tool: "get_customer_by_phone", Input: []byte(`{"phone":"1"}`), Outcome: []byte(`{"id":"c1","name":"Ada"}`)},
		"a customer, looked up once": {Tool: "lookup_customer_details", Input: []byte(`"c1"`), Outcome: []byte(`{"id":"c1","plan":"x"}`)},
	} {
		t.Run(name, func(t *testing.T) {
			asked, ended := told(newDetector(t, loop.Config{}), times(40, func(int) loop.Step { return s })...)
			require.Equal(t, []int{3, 0}, []int{asked, ended}, "asked at most")
			asked, _ = told(newDetector(t, loop.Config{}), times(60, func(n int) loop.Step {
				if n%2 == 0 {
					return s
				}
				return look(fmt.Sprint("file ", n), fmt.Sprint("text ", n))
			})...)
			require.Zero(t, asked, "between reads of other files")
		})
	}
	t.Run("what was seen before anything new does not count", func(t *testing.T) {
		d, status := newDetector(t, loop.Config{}), bash("git status", " M a.go")
		turns(d, "123")
		d.Step(status)
		for _, other := range "412" {
			require.Empty(t, turns(d, string(other)).Rule)
			require.Empty(t, d.Step(status).Rule)
		}
		require.Empty(t, turns(d, "3").Rule)
		require.Equal(t, loop.Ask, d.Step(status).Advice)
	})
	t.Run("what fails is no state", func(t *testing.T) {
		_, ended := told(newDetector(t, loop.Config{}),
			times(9, func(int) loop.Step { return bash("git status", "fatal: not a git repository") })...)
		require.Equal(t, 5, ended)
	})
}

// everyTime gives a detector the same call with another outcome each time, and returns the first turns asked and ended.
func everyTime(t *testing.T, s loop.Step, of func(n int) string) (asked, ended int) {
	t.Helper()
	return told(newDetector(t, loop.Config{}), times(11, func(n int) loop.Step {
		s.Outcome = []byte(of(n))
		return s
	})...)
}

// TestNoise protects outcomes that are the same but for what differs each time.
func TestNoise(t *testing.T) {
	id := func(n int) string { return fmt.Sprintf("%08x-0c1d-4e5f-8a9b-%012x", 0x1f2e3d4c+n*7919, n*104729) }
	for name, of := range map[string]func(n int) string{
		"a shell that numbers its lines": func(n int) string {
			return fmt.Sprintf("/bin/bash: line %d: cd: fastjson/: No such file or directory", 11301+n*16)
		},
		"sh that numbers its lines":   func(n int) string { return fmt.Sprintf("sh: line %d: javac: command not found", 3+n) },
		"a UUID":                      func(n int) string { return "Created the order " + id(n) + " for Ada." },
		"the ID of a process":         func(n int) string { return fmt.Sprintf("Started the server, pid %d, on port 80", 4000+13*n) },
		"the ID of a process in JSON": func(n int) string { return fmt.Sprintf(`{"state":"up","pid":%d}`, 4000+13*n) },
		"a time of the day":           func(n int) string { return fmt.Sprintf("[17:00:%02d] ready on port 80", n) },
		"a counter of failures": func(n int) string {
			return fmt.Sprintf("Error: attempt %d failed: the field region is missing", n+1)
		},
		"the ID of a request that failed": func(n int) string {
			return fmt.Sprintf(`{"error":{"message":"bad body","request_id":"req_%dk%dz"}}`, 7+n*n, n*31)
		},
		"the name of a log": func(n int) string {
			return fmt.Sprintf("npm error ERESOLVE could not resolve\nnpm error A log is in /home/a/.npm/_logs/2026-11-22T17_0%d_00Z-debug-0.log", n)
		},
		"Codex": func(n int) string {
			return fmt.Sprintf("Chunk ID: f8e%03x\nWall time: 0.05%d seconds\nProcess exited with code 0\nOriginal token count: 9\nOutput:\na.go", n*37, n)
		},
		"Codex, with the command": func(n int) string {
			return fmt.Sprintf("Command: /bin/zsh -lc \"ls\"\nChunk ID: a%c%03x\nWall time: 1.05%d seconds\nOutput:\na.go", 'b'+n, n*37, n)
		},
		"Gemini CLI": func(n int) string {
			return fmt.Sprintf("Command: make it\nOutput: done\nExit Code: 0\nBackground PIDs: %d, %d\nProcess Group PGID: %d", 900+n, 901+n, 800+n)
		},
	} {
		t.Run(name, func(t *testing.T) {
			asked, _ := everyTime(t, loop.Step{Tool: "run_it"}, of)
			require.Equal(t, 3, asked)
		})
	}
	for name, of := range map[string]func(n int) string{
		"a line of a file":       func(n int) string { return fmt.Sprintf("line %d: said", n) },
		"how far something is":   func(n int) string { return fmt.Sprintf("%d of 12 done", n) },
		"how many tests fail":    func(n int) string { return fmt.Sprintf("FAILED tests/test_a.py::test_%c", 'a'+n) },
		"a version":              func(n int) string { return fmt.Sprintf("v1.2.%d", n) },
		"a line of another name": func(n int) string { return fmt.Sprintf("Balance: %d", n) },
	} {
		t.Run(name+" is no noise", func(t *testing.T) {
			asked, _ := everyTime(t, loop.Step{Tool: "run_it"}, of)
			require.Zero(t, asked)
		})
	}
	t.Run("lines that a host names", func(t *testing.T) {
		d := newDetector(t, loop.Config{Volatile: []string{"Balance"}})
		asked, _ := told(d, times(9, func(n int) loop.Step {
			return loop.Step{Tool: "x", Outcome: fmt.Appendf(nil, "one\n  Balance: %d\nBalanced: yes", n)}
		})...)
		require.Equal(t, 3, asked)
	})
	t.Run("outcomes that a host normalizes", func(t *testing.T) {
		d := newDetector(t, loop.Config{Normalize: func(tool string, outcome []byte) []byte {
			require.Equal(t, "x", tool)
			return outcome[:4]
		}})
		asked, _ := told(d, times(9, func(n int) loop.Step {
			return loop.Step{Tool: "x", Outcome: fmt.Appendf(nil, "done %d", n)}
		})...)
		require.Equal(t, 3, asked)
	})
	t.Run("a status that stays is not ended in any of these forms", func(t *testing.T) {
		asked, ended := everyTime(t, loop.Step{Tool: "exec_command", Input: []byte(`{"cmd":"git status"}`)}, func(n int) string {
			return fmt.Sprintf("Chunk ID: f8e%03x\nWall time: 0.05%d seconds\nOutput:\nnothing to commit", n*37, n)
		})
		require.Equal(t, []int{3, 0}, []int{asked, ended})
	})
}

// TestRedo protects a run that makes the same change again and again, into a file that grows.
func TestRedo(t *testing.T) {
	text := strings.Repeat("if (node == null) { return; }\n", 5)
	grows := func(n int) string {
		return fmt.Sprintf("[File: /src/A.java (%d lines total)]\n%s", 70+5*n, strings.Repeat(text, n+1))
	}
	for name, c := range map[string]struct {
		step         loop.Step
		asked, ended int
	}{
		"a declared edit":            {edit(text, ""), 5, 10},
		"an edit by its name":        {loop.Step{Tool: "str_replace_editor", Input: []byte(text)}, 5, 10},
		"an edit by a command":       {bash("edit 18:18\n"+text+"end_of_edit", ""), 5, 10},
		"a file that a shell writes": {bash("cat >> A.java <<'EOF'\n"+text+"EOF", ""), 5, 10},
		"a short one may be wanted":  {edit("insert a line", ""), 0, 0},
		"a look is no change":        {look(text, ""), 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			asked, ended := everyTime(t, c.step, grows)
			require.Equal(t, []int{c.asked, c.ended}, []int{asked, ended})
		})
	}
	t.Run("another step in between begins again", func(t *testing.T) {
		asked, _ := told(newDetector(t, loop.Config{}), times(60, func(n int) loop.Step {
			if n%5 == 4 {
				return look(fmt.Sprint(n), fmt.Sprint("line ", n))
			}
			return edit(text, grows(n))
		})...)
		require.Zero(t, asked)
	})
	t.Run("a change beside others counts once for a turn", func(t *testing.T) {
		d := newDetector(t, loop.Config{})
		for n := range 5 {
			v := d.Step(edit(text+fmt.Sprint(n), "ok"), edit(text, grows(n)), edit(text, grows(n)+"b"))
			require.Equal(t, n == 4, v.Rule == loop.Redo, n)
		}
	})
}

// TestEcho protects failures that echo their input, so that none is like the one before.
func TestEcho(t *testing.T) {
	text := func(n int) string { return fmt.Sprintf("func old%d() { return %c }", n*n, 'a'+n) }
	for name, of := range map[string]func(n int) loop.Step{
		"an edit that finds nothing to replace": func(n int) loop.Step {
			return edit(text(n), "String to replace not found in file.\nString: "+text(n))
		},
		"an edit that would be wrong": func(n int) loop.Step {
			return bash(fmt.Sprintf("edit %d:%d\n%s\nend_of_edit", n, n+2, text(n)),
				"Your proposed edit has introduced new syntax error(s). Please read this message.\n"+text(n))
		},
		"prose that is typed into a shell": func(n int) loop.Step {
			prose := fmt.Sprintf("The command is still an issue, the shell has it. Try %c instead of the shell command.", 'a'+n)
			return bash(prose, fmt.Sprintf("/bin/bash: line %d: The: command not found\n%s", 806+n*17, prose))
		},
	} {
		t.Run(name, func(t *testing.T) {
			asked, _ := told(newDetector(t, loop.Config{}), times(12, of)...)
			require.Equal(t, 8, asked)
		})
	}
	t.Run("a traceback has no first line", func(t *testing.T) {
		asked, _ := told(newDetector(t, loop.Config{}), times(11, func(n int) loop.Step {
			return bash("python solve.py", fmt.Sprintf("Traceback (most recent call last):\n  File \"solve.py\", line %d\n%cError: %s",
				n, 'A'+n, strings.Repeat("x", n)))
		})...)
		require.Zero(t, asked)
	})
	t.Run("a command that ended with 0 has not failed", func(t *testing.T) {
		noise := "/opt/brew.sh: line 60: cannot create temp file for here document: Operation not permitted\\n"
		for _, form := range []string{`{"output":"` + noise + `%s","metadata":{"exit_code":0}}`, "Exit Code: 0\n" + noise + "%s",
			"<returncode>0</returncode>\n<output>\n" + noise + "%s"} {
			asked, _ := told(newDetector(t, loop.Config{}), times(30, func(n int) loop.Step {
				return bash(fmt.Sprintf("show-it part%d of the same", n), fmt.Sprintf(form, fmt.Sprint("text ", n)))
			})...)
			require.Zero(t, asked, form)
		}
	})
	t.Run("one that ended with another code has", func(t *testing.T) {
		asked, ended := told(newDetector(t, loop.Config{}), times(9, func(int) loop.Step {
			return after(4*time.Second, bash("./run.sh", "Process exited with code 3\nOutput:\nwhat a pity"))
		})...)
		require.Equal(t, []int{3, 5}, []int{asked, ended})
	})
}

// TestInventedNames protects a search for files whose names are made up from the same words.
func TestInventedNames(t *testing.T) {
	names := []string{"build_config", "project_setup", "dependencies_handling", "project_structure_dependencies", "build_env_setup",
		"build_system_requirements", "classpathSetup", "compilation-process", "build_tools_config", "java_dev_env",
		"module_structure_dependencies", "java_versioning", "build_path_setup", "java_build_env", "project_config"}
	asked, _ := told(newDetector(t, loop.Config{}), times(len(names), func(n int) loop.Step {
		return bash(fmt.Sprintf("find_file \"%s*\"", names[n]), fmt.Sprintf("No matches found for %q in /src", names[n]))
	})...)
	require.NotZero(t, asked)
}

// TestForNow protects who tries again what fails for now, and what was asked for more than once.
func TestForNow(t *testing.T) {
	for name, s := range map[string]loop.Step{
		"a refused connection":       after(4*time.Second, bash("curl http://localhost:8080", "curl: (7) Failed to connect: Connection refused")),
		"a service that is busy":     {Tool: "post_it", Outcome: []byte(`{"status":503,"message":"Service Unavailable"}`)},
		"a text of that":             after(4*time.Second, bash("curl http://a", "HTTP 503 Service Unavailable")),
		"a declared call of that":    {Tool: "x", Class: loop.Change, Outcome: []byte("Error: 503 Service Unavailable")},
		"a line that is appended":    bash("echo tick >> log.txt", ""),
		"a row that is appended":     {Tool: "append_row", Class: loop.Change, Input: []byte(`["a"]`), Outcome: []byte("ok")},
		"a folder upwards each time": bash("cd ..", ""),
	} {
		t.Run(name, func(t *testing.T) {
			asked, ended := told(newDetector(t, loop.Config{}), times(10, func(int) loop.Step { return s })...)
			require.Equal(t, []int{0, 0}, []int{asked, ended})
		})
	}
	for name, s := range map[string]loop.Step{
		"a command that hangs":     bash("./build.sh", "Error: the command timed out after 120 s"),
		"what a policy refuses":    {Tool: "push", Outcome: []byte("Error: refused by the policy of the branch")},
		"a folder that is not":     bash("cd src/app", "bash: cd: src/app: No such file or directory"),
		"a line that is written":   bash("echo tick > log.txt", ""),
		"a service without a word": {Tool: "post_it", Outcome: []byte(`{"status":422,"message":"no region"}`)},
	} {
		t.Run(name+" does not pass", func(t *testing.T) {
			asked, ended := told(newDetector(t, loop.Config{}), times(10, func(int) loop.Step { return s })...)
			require.Equal(t, []int{3, 5}, []int{asked, ended})
		})
	}
}

// TestStreak protects a run in which everything fails, whatever it calls. It is asked about, and not ended.
func TestStreak(t *testing.T) {
	fails := func(n int) loop.Step {
		return loop.Step{Tool: fmt.Sprint("tool", n), Outcome: fmt.Appendf(nil, "Error: no %s here", strings.Repeat("x", n+9))}
	}
	asked, ended := told(newDetector(t, loop.Config{}), times(60, fails)...)
	require.Equal(t, []int{12, 0}, []int{asked, ended})
	asked, _ = told(newDetector(t, loop.Config{}), times(60, func(n int) loop.Step {
		if n%12 == 11 {
			return look(fmt.Sprint(n), fmt.Sprint("text ", n))
		}
		return fails(n)
	})...)
	require.Zero(t, asked, "something works now and then")
	asked, _ = told(newDetector(t, loop.Config{}), times(30, func(n int) loop.Step {
		return bash(fmt.Sprintf("rg %s%d .", strings.Repeat("x", n+3), n*n), "Exit code 1\n")
	})...)
	require.Zero(t, asked, "one name after the other is nowhere")
	d := newDetector(t, loop.Config{})
	for _, s := range times(11, fails) {
		d.Step(s)
	}
	require.Equal(t, `All that was called in the last 12 turns failed, at last "tool11"; do something else, or say what is missing.`,
		d.Step(fails(11)).String())
}

// TestWhy protects commands beside which an agent says each time in other words why it runs them.
func TestWhy(t *testing.T) {
	why := func(field string, n int) []byte {
		return fmt.Appendf(nil, `{%q:"step %d of the work","command":"./gen.sh","timeout":%d}`, field, n, 1000*n)
	}
	asked, _ := told(newDetector(t, loop.Config{}), times(9, func(n int) loop.Step {
		return loop.Step{Tool: "Bash", Input: why("description", n), Outcome: []byte("done")}
	})...)
	require.Equal(t, 3, asked)
	asked, _ = told(newDetector(t, loop.Config{}), times(9, func(n int) loop.Step {
		return loop.Step{Tool: "Bash", Input: why("name", n), Outcome: []byte("done")}
	})...)
	require.Zero(t, asked, "another field is of the command")
	asked, _ = told(newDetector(t, loop.Config{}), times(9, func(n int) loop.Step {
		return loop.Step{Tool: "Task", Input: fmt.Appendf(nil, `{"description":"part %d"}`, n), Outcome: []byte("done")}
	})...)
	require.Zero(t, asked, "without a command the description is the work")
}
