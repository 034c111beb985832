package loop_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/loop"
)

// A session makes up what an agent did, in the forms of agents of today.
type session struct {
	random *rand.Rand
	turns  [][]loop.Step
	clock  int
}

// do adds a turn of one call. The gap is that of a model of today.
func (s *session) do(class loop.Class, tool, input, outcome string) {
	s.turns = append(s.turns, []loop.Step{s.one(class, tool, input, outcome)})
}

func (s *session) one(class loop.Class, tool, input, outcome string) loop.Step {
	gap := 2 + s.random.ExpFloat64()*12
	return loop.Step{Tool: tool, Class: class, Input: []byte(input), Outcome: []byte(outcome),
		Gap: time.Duration(min(gap, 60) * float64(time.Second))}
}

// last returns the last call, to change it.
func (s *session) last() *loop.Step { return &s.turns[len(s.turns)-1][0] }

func (s *session) gap(seconds int) { s.last().Gap = time.Duration(seconds) * time.Second }

// Claude Code.
func (s *session) claude(class loop.Class, command, outcome string) {
	s.do(class, "Bash", fmt.Sprintf(`{"command":%q,"description":"Run it %c"}`, command, 'a'+len(s.turns)%26), outcome)
}

func (s *session) edit(path, old, text string) {
	s.do(loop.Change, "Edit", fmt.Sprintf(`{"file_path":%q,"old_string":%q,"new_string":%q}`, path, old, text),
		"The file "+path+" has been updated successfully.")
}

func (s *session) read(path, text string) {
	s.do(loop.Look, "Read", fmt.Sprintf(`{"file_path":%q}`, path), "     1→"+text)
}

// Codex.
func (s *session) codex(class loop.Class, command string, code int, outcome string) {
	s.do(class, "exec_command", fmt.Sprintf(`{"cmd":%q,"yield_time_ms":%d}`, command, 1000+s.random.IntN(9)*1000), fmt.Sprintf(
		"Chunk ID: %06x\nWall time: 0.%04d seconds\nProcess exited with code %d\nOriginal token count: %d\nOutput:\n%s",
		s.random.IntN(1<<24), s.random.IntN(1e4), code, len(outcome)/4, outcome))
}

// Gemini CLI.
func (s *session) gemini(class loop.Class, command string, code int, outcome string) {
	s.do(class, "run_shell_command", fmt.Sprintf(`{"command":%q,"description":"try %d"}`, command, len(s.turns)), fmt.Sprintf(
		"Command: %s\nDirectory: (root)\nOutput: %s\nError: (none)\nExit Code: %d\nSignal: (none)\nBackground PIDs: (none)\n"+
			"Process Group PGID: %d", command, outcome, code, 4000+s.random.IntN(9000)))
}

// OpenHands.
func (s *session) hands(class loop.Class, command string, code int, outcome string) {
	s.do(class, "execute_bash", fmt.Sprintf(`{"command":%q,"security_risk":"LOW"}`, command), fmt.Sprintf(
		"%s\n[The command completed with exit code %d.]\n[Current working directory: /workspace]\n"+
			"[Command finished with exit code %d]", outcome, code, code))
}

// Cursor.
func (s *session) cursor(class loop.Class, command, outcome string) {
	s.do(class, "run_terminal_cmd", fmt.Sprintf(`{"command":%q,"is_background":false,"explanation":"step %d"}`, command, len(s.turns)),
		"Exit code: 0\n\nCommand output:\n\n```\n"+outcome+"\n```")
}

// opencode.
func (s *session) open(class loop.Class, command, outcome string) {
	s.do(class, "bash", fmt.Sprintf(`{"command":%q,"description":"Does %d"}`, command, len(s.turns)), outcome)
}

func (s *session) now() string {
	s.clock += 7 + s.random.IntN(40)
	return fmt.Sprintf("2026-11-22T17:%02d:%02dZ", s.clock/60%60, s.clock%60)
}

const (
	isLook, isChange, isWait, isDrive = loop.Look, loop.Change, loop.Wait, loop.Drive
)

func f(form string, of ...any) string { return fmt.Sprintf(form, of...) }

var healthySessions = []struct {
	name   string
	rounds int
	do     func(s *session, n int)
}{
	{"tdd in claude", 20, func(s *session, n int) {
		s.edit("/src/cart_test.go", f("// %d", n), f("func TestCart%d(t *testing.T) {}", n))
		s.claude(isLook, "go test ./cart/...", f("--- FAIL: TestCart%d (0.00s)\nFAIL\nFAIL\texample.com/cart\t0.0%ds\nFAIL", n, n%7+2))
		s.edit("/src/cart.go", f("// %d", n), f("func Cart%d() {}", n))
		s.claude(isLook, "go test ./cart/...", f("ok  \texample.com/cart\t0.0%ds", n%7+2))
	}},
	{"tdd in codex", 20, func(s *session, n int) {
		s.do(isChange, "apply_patch", f("*** Begin Patch\n*** Update File: a.py\n+def f%d(): pass\n*** End Patch", n), "Success. Updated the following files:\nM a.py\n")
		s.codex(isLook, "pytest -q", 1, "F\n1 failed, 40 passed in 0.31s")
		s.do(isChange, "apply_patch", f("*** Begin Patch\n*** Update File: a.py\n+def g%d(): pass\n*** End Patch", n), "Success. Updated the following files:\nM a.py\n")
		s.codex(isLook, "pytest -q", 0, "41 passed in 0.30s")
	}},
	{"the same red test through eight repairs in opencode", 1, func(s *session, _ int) {
		for n := range 8 {
			s.do(isChange, "edit", f(`{"filePath":"/a.ts","oldString":"x%d","newString":"y%d"}`, n, n), "Edit applied successfully.")
			s.open(isLook, "npx vitest run src/a.test.ts", "FAIL src/a.test.ts > adds\nAssertionError: expected 3 to be 4\nTests 1 failed | 9 passed\nDuration 612ms")
		}
		s.open(isLook, "npx vitest run src/a.test.ts", "Tests 10 passed\nDuration 600ms")
	}},
	{"flaky test, run till it fails, by a shell loop", 12, func(s *session, n int) {
		s.claude(isLook, "for i in $(seq 20); do go test -count=1 -run TestRace ./q || break; done", strings.Repeat(f("ok  \tq\t0.%d1s\n", n+1), 3+n%5))
		s.edit("/q/q.go", f("lock %d", n), f("lock %d", n+1))
	}},
	{"a suite run twice after each of many repairs", 15, func(s *session, n int) {
		s.edit("/a.rb", f("a%d", n), f("b%d", n))
		s.hands(isLook, "bundle exec rspec spec/models", 0, "120 examples, 0 failures")
		s.hands(isLook, "bundle exec rspec spec/models", 0, "120 examples, 0 failures")
	}},
	{"bisect by a make target", 11, func(s *session, n int) {
		s.open(isChange, []string{"git bisect good", "git bisect bad"}[n%3/2], f("Bisecting: %d revisions left to test after this (roughly %d steps)\n[%07x] change %d", 2048>>n, 11-n, n*7919+4096, n))
		s.open(isLook, "make -s check", []string{"ok", "FAIL: parser\nmake: *** [check] Error 1"}[n%3/2])
	}},
	{"waits for a run of CI", 1, func(s *session, _ int) {
		s.codex(isChange, "git push origin HEAD", 0, "To github.com:a/b\n * [new branch] HEAD -> fix")
		for n := range 18 {
			s.codex(isWait, "gh run view 4711 --json status,conclusion", 0, `{"conclusion":"","status":"in_progress"}`)
			s.gap(20 + n%30)
		}
		s.codex(isWait, "gh run view 4711 --json status,conclusion", 0, `{"conclusion":"success","status":"completed"}`)
	}},
	{"waits for a run of CI, in words", 1, func(s *session, _ int) {
		for n := range 19 {
			s.claude(isWait, "gh run view 4711", "* fix Test · 4711\nTriggered via push about 3 minutes ago\n\nJOBS\n* test (ID 99)\n\nFor more information about the job, try: gh run view --job=99")
			s.gap(8 + n%20)
		}
		s.claude(isWait, "gh run view 4711", "✓ fix Test · 4711")
	}},
	{"waits for a rollout", 1, func(s *session, _ int) {
		for range 9 {
			s.claude(isWait, "kubectl rollout status deployment/api --timeout=30s", "Waiting for deployment \"api\" rollout to finish: 1 out of 3 new replicas have been updated...\nerror: timed out waiting for the condition")
			s.gap(33)
		}
		s.claude(isWait, "kubectl rollout status deployment/api --timeout=30s", "deployment \"api\" successfully rolled out")
	}},
	{"watches pods, and reads in between", 12, func(s *session, n int) {
		s.claude(isLook, "kubectl get pods", f("NAME READY STATUS RESTARTS AGE\napi-7f 0/1 ContainerCreating 0 %ds", 9+n*11))
		s.read(f("/k8s/%d.yaml", n), f("kind: Service # %d", n))
	}},
	{"a long download that resumes", 1, func(s *session, _ int) {
		for n := range 14 {
			s.claude(isChange, "curl -L -C - -o model.tar https://example.com/model.tar", f("** Resuming transfer from byte position %d\ncurl: (18) transfer closed with %d bytes remaining to read", n*7340032, 9e8-n*7340032))
			s.gap(30 + n)
		}
		s.claude(isChange, "curl -L -C - -o model.tar https://example.com/model.tar", "100 900M")
	}},
	{"a download that resumes by wget", 14, func(s *session, n int) {
		s.gemini(isChange, "wget -c https://example.com/d.iso", 4, f("%s (1.2 MB/s) - Read error at byte %d/900000000 (Connection reset by peer). Retrying.", s.now(), n*734003+1))
		s.gap(20 + n)
	}},
	{"a log tailed that moves seldom", 1, func(s *session, _ int) {
		line := 0
		for n := range 40 {
			if n%3 == 0 {
				line++
			}
			s.claude(isLook, "tail -n 3 train.log", f("epoch %d loss 0.%d", line, 900-line*7))
			s.gap(15 + s.random.IntN(45))
		}
	}},
	{"deploys with retries and repairs", 1, func(s *session, _ int) {
		for n := range 10 {
			s.claude(isChange, "terraform apply -auto-approve", f("Error: creating %s: InvalidParameter: field_%c is required\n  on main.tf line %d", []string{"VPC", "Subnet", "Role", "Bucket", "Queue"}[n%5], 'a'+n, n*3))
			s.edit("/main.tf", f("r%d", n), f("field_%c = 1", 'a'+n))
		}
		s.claude(isChange, "terraform apply -auto-approve", "Apply complete! Resources: 12 added")
	}},
	{"a pipeline, file after file", 60, func(s *session, n int) {
		s.open(isChange, f("python convert.py --in data/part-%04d.csv --out out/part-%04d.parquet", n, n), "done")
	}},
	{"a pipeline, file after file, with a check", 40, func(s *session, n int) {
		s.codex(isChange, f("./etl load --date 2026-%02d-%02d", 9+n/20, n%20+1), 0, "loaded")
		s.codex(isLook, "./etl verify", 0, "ok")
	}},
	{"a pipeline with a check that says the same, quick", 30, func(s *session, n int) {
		s.do(isChange, "import_batch", f(`{"batch":%d}`, n), `{"ok":true}`)
		s.gap(2)
		s.do(isLook, "validate_schema", `{}`, `{"valid":true}`)
		s.gap(2)
	}},
	{"the same edit at forty places", 40, func(s *session, n int) {
		s.edit(f("/src/page%d.tsx", n), "import { Button } from 'old-ui'", "import { Button } from '@acme/ui/button' // moved, see the guide on how to migrate pages")
	}},
	{"the same replacement in one file, one by one", 40, func(s *session, n int) {
		s.do(isChange, "replace", f(`{"file_path":"/a.ts","instruction":"change the %dth","old_string":"foo(%d","new_string":"bar(%d"}`, n, n, n), "Successfully modified file: /a.ts (1 replacements).")
	}},
	{"generated migrations", 25, func(s *session, n int) {
		s.claude(isChange, f("npx prisma migrate dev --name step_%d", n), f("Applying migration `2026112217%04d_step_%d`\n\nYour database is now in sync with your schema.", n, n))
		s.claude(isChange, "npx prisma generate", "✔ Generated Prisma Client (v5.22.0) to ./node_modules/@prisma/client in 82ms")
	}},
	{"django migrations", 20, func(s *session, n int) {
		s.edit(f("/app/models%d.py", n), "pass", "x = 1")
		s.hands(isChange, "python manage.py makemigrations", 0, f("Migrations for 'app':\n  app/migrations/%04d_auto.py\n    - Add field x to model m%d", n, n))
		s.hands(isChange, "python manage.py migrate", 0, f("Operations to perform:\n  Apply all migrations: app\nRunning migrations:\n  Applying app.%04d_auto... OK", n))
		s.hands(isLook, "python manage.py check", 0, "System check identified no issues (0 silenced).")
	}},
	{"forms in a browser", 15, func(s *session, n int) {
		s.do(isDrive, "browser_navigate", `{"url":"https://crm.example.com/new"}`, "Page: New contact")
		s.do(isDrive, "browser_type", f(`{"element":"Name","ref":"e5","text":"Ada %d"}`, n), "Typed")
		s.do(isDrive, "browser_type", f(`{"element":"City","ref":"e6","text":"Paris"}`), "Typed")
		s.do(isDrive, "browser_click", `{"element":"Save","ref":"e9"}`, "Clicked")
		s.do(isLook, "browser_snapshot", `{}`, f("- text: Saved contact %d", n))
	}},
	{"forms in a browser that answers ok", 25, func(s *session, n int) {
		s.do(isDrive, "browser_navigate", `{"url":"https://crm.example.com/new"}`, "ok")
		s.do(isDrive, "browser_fill_form", f(`{"fields":[{"name":"Name","value":"Ada %d"}]}`, n), "ok")
		s.do(isDrive, "browser_click", `{"element":"Save","ref":"e9"}`, "ok")
	}},
	{"a spreadsheet row by row", 80, func(s *session, n int) {
		s.do(isChange, "update_cells", f(`{"range":"A%d:C%d","values":[["x",%d,"EUR"]]}`, n, n, n*3), `{"updatedCells":3}`)
	}},
	{"a spreadsheet read and written", 50, func(s *session, n int) {
		s.do(isLook, "read_range", f(`{"range":"A%d:C%d"}`, n, n), `[["","",""]]`)
		s.do(isChange, "write_range", f(`{"range":"A%d","value":0}`, n), `true`)
	}},
	{"customers from a queue, with macros", 25, func(s *session, n int) {
		s.do(isLook, "next_ticket", `{}`, f(`{"id":%d,"subject":"Where is my parcel %d?"}`, 900+n, n))
		s.do(isLook, "get_macro", `{"name":"parcel-late"}`, `{"text":"We are sorry that your parcel is late. It will be there within five days, and we give you a voucher for the wait."}`)
		s.do(isChange, "apply_macro", f(`{"ticket":%d,"macro":"parcel-late"}`, 900+n), `{"ok":true}`)
	}},
	{"customers from a queue that is empty at times", 30, func(s *session, n int) {
		if n%4 != 0 {
			s.do(isWait, "next_ticket", `{}`, `null`)
			s.gap(40)
			return
		}
		s.do(isWait, "next_ticket", `{}`, f(`{"id":%d}`, n))
		s.do(isLook, "get_order", f(`{"ticket":%d}`, n), f(`{"order":"A%d","state":"sent"}`, n))
		s.do(isChange, "reply", f(`{"ticket":%d,"text":"It was sent."}`, n), `"ok"`)
	}},
	{"git status after each edit", 40, func(s *session, n int) {
		s.edit("/a.go", f("a%d", n), f("b%d", n))
		s.claude(isLook, "git status --short", " M a.go")
	}},
	{"git diff --stat after each commit", 30, func(s *session, n int) {
		s.edit("/a.go", f("a%d", n), f("b%d", n))
		s.codex(isChange, f("git commit -am 'step %d'", n), 0, f("[main %07x] step %d\n 1 file changed, 1 insertion(+), 1 deletion(-)", n*7919, n))
		s.codex(isLook, "git diff --stat", 0, "")
		s.codex(isLook, "git status", 0, "On branch main\nnothing to commit, working tree clean")
	}},
	{"work in a REPL", 40, func(s *session, n int) {
		s.do(isDrive, "python_repl", f(`{"code":"df.iloc[%d].sum()"}`, n), f("%d", n*n))
		s.do(isDrive, "python_repl", `{"code":"df = df.dropna()"}`, "")
	}},
	{"cells without output", 40, func(s *session, n int) {
		s.do(isChange, "execute_ipython_cell", f(`{"code":"x%d = load(%d)"}`, n, n), "[Code executed successfully with no output]")
	}},
	{"looks each minute, and it moves", 120, func(s *session, n int) {
		s.do(isLook, "get_metrics", `{"service":"api"}`, f(`{"p99":0.%d,"errors":0}`, 200+n*7%31))
		s.gap(60)
	}},
	{"looks each minute at an alert, as declared", 120, func(s *session, _ int) {
		s.do(isWait, "poll_alerts", `{}`, `[]`)
		s.gap(60)
	}},
	{"three sub-agents read the same", 3, func(s *session, n int) {
		s.read("/README.md", "A project.")
		s.read("/AGENTS.md", "Be careful.")
		for i := range 15 {
			s.read(f("/part%d/f%d.go", n, i), f("package p%d // %d", n, i))
		}
	}},
	{"three sub-agents in turns", 1, func(s *session, _ int) {
		for i := range 15 {
			for n := range 3 {
				if i == 0 {
					s.read("/AGENTS.md", "Be careful.")
				}
				s.do(isLook, "Grep", f(`{"pattern":"w%dx%d","path":"/part%d"}`, n, i, n), f("Found 1 file\n/part%d/a%d.go", n, i))
			}
		}
	}},
	{"refused, granted later", 1, func(s *session, _ int) {
		for range 2 {
			s.claude(isChange, "rm -rf build", "The user doesn't want to proceed with this tool use. The tool use was rejected.")
			s.last().Refused = true
			s.read("/Makefile", "clean: rm -rf build")
		}
		s.do(loop.Person, "", "", "go ahead")
		s.claude(isChange, "rm -rf build", "")
	}},
	{"different commands refused", 6, func(s *session, n int) {
		s.claude(isChange, f("docker rm c%d", n), "Permission to use Bash has been denied because Claude Code is running in don't ask mode.")
		s.last().Refused = true
		s.read(f("/d%d", n), f("x%d", n))
	}},
	{"tools that say ok always", 60, func(s *session, n int) {
		s.do(isChange, f("do_%c", 'a'+n%7), f(`{"item":"box %d"}`, n), "ok")
	}},
	{"lights, on and off", 20, func(s *session, n int) {
		s.do(isChange, "set_light", f(`{"room":%d,"on":true}`, n%10), "ok")
		s.do(isChange, "set_scene", f(`{"room":%d,"scene":"s%d"}`, n%10, n), "ok")
	}},
	{"todos written as a whole", 25, func(s *session, n int) {
		s.do(isChange, "TodoWrite", f(`{"todos":[{"content":"step %d","status":"in_progress","activeForm":"doing"}]}`, n), "Todos have been modified successfully. Ensure that you continue to use the todo list to track your progress.")
		s.edit(f("/s%d.go", n), "a", "b")
	}},
	{"plan of codex", 25, func(s *session, n int) {
		s.do(isChange, "update_plan", f(`{"plan":[{"step":"s%d","status":"completed"}]}`, n), "Plan updated")
		s.codex(isLook, f("sed -n '%d,%dp' src/lib.rs", n*200+1, n*200+200), 0, f("fn f%d() {}", n))
	}},
	{"type errors go down", 25, func(s *session, n int) {
		s.edit("/a.ts", f("x%d", n), f("y%d", n))
		s.cursor(isLook, "npx tsc --noEmit", f("src/a.ts(%d,5): error TS2322: Type 'string' is not assignable to type 'number'.\n\nFound %d errors.", 9+n*4, 25-n))
	}},
	{"lint errors go down without edits that are seen", 12, func(s *session, n int) {
		s.cursor(isChange, f("npx eslint --fix src/p%d", n), "")
		s.cursor(isLook, "npx eslint src", f("✖ %d problems (%d errors, 0 warnings)", 120-n*10, 120-n*10))
	}},
	{"one service after the other is restarted and asked", 20, func(s *session, n int) {
		s.hands(isChange, f("systemctl restart worker@%d", n), 0, "")
		s.hands(isLook, f("systemctl is-active worker@%d", n), 0, "active")
		s.hands(isLook, "curl -s localhost/health", 0, `{"status":"ok"}`)
	}},
	{"reviews pull requests", 20, func(s *session, n int) {
		s.claude(isLook, f("gh pr view %d", 100+n), f("title: Bump x to %d", n))
		s.claude(isLook, f("gh pr checks %d", 100+n), "All checks were successful")
		s.claude(isChange, f("gh pr review %d --approve -b LGTM", 100+n), "")
		s.claude(isChange, f("gh pr merge %d --squash", 100+n), "")
	}},
	{"dependencies by another and another try", 1, func(s *session, _ int) {
		for n := range 7 {
			s.open(isChange, f("pip install 'torch==2.%d'", n), f("ERROR: Could not find a version that satisfies the requirement torch==2.%d\nERROR: No matching distribution found", n))
		}
		s.open(isChange, "pip install torch", "Successfully installed torch-2.9")
	}},
	{"searches that find much", 30, func(s *session, n int) {
		s.do(isLook, "codebase_search", f(`{"query":"where is handler %d set up","explanation":"x","target_directories":[]}`, n), f("src/h%d.ts:%d", n, n))
	}},
	{"checks that twenty names are gone", 20, func(s *session, n int) {
		s.codex(isLook, f("rg -n 'legacy%c%c' src", 'A'+n, 'b'+n), 1, "")
	}},
	{"views an image that is made again", 15, func(s *session, n int) {
		s.edit("/plot.py", f("w=%d", n), f("w=%d", n+1))
		s.claude(isChange, "python plot.py", "")
		s.read("/out.png", "[image]")
	}},
	{"a server started again after each edit", 15, func(s *session, n int) {
		s.edit("/srv.js", f("a%d", n), f("b%d", n))
		s.claude(isChange, "pkill -f srv.js; node srv.js & sleep 1; curl -s localhost:3000/", "Hello")
		s.claude(isLook, "curl -s -o /dev/null -w '%{http_code}' localhost:3000/", "200")
	}},
	{"latex until the references are right", 10, func(s *session, n int) {
		s.edit("/p.tex", f("a%d", n), f("b%d", n))
		s.claude(isChange, "pdflatex -interaction=nonstopmode p.tex", "Output written on p.pdf (12 pages).")
		s.claude(isChange, "pdflatex -interaction=nonstopmode p.tex", "Output written on p.pdf (12 pages).")
	}},
	{"translates strings by a tool", 60, func(s *session, n int) {
		s.do(isLook, "translate", f(`{"text":"word %d","to":"fr"}`, n), `{"text":"mot"}`)
	}},
	{"reads the output of a shell that runs", 25, func(s *session, n int) {
		s.do(isWait, "BashOutput", `{"bash_id":"bash_1"}`, f("<status>running</status>\n\n<timestamp>%s</timestamp>", s.now()))
		s.gap(10 + n)
	}},
	{"writes to a session of codex", 25, func(s *session, _ int) {
		s.do(isWait, "write_stdin", `{"session_id":7,"chars":"","yield_time_ms":30000}`, f("Chunk ID: %06x\nWall time: 30.0%d seconds\nProcess running with session ID 7\nOriginal token count: 0\nOutput:\n", s.random.IntN(1<<24), s.random.IntN(99)))
		s.gap(31)
	}},
	{"a build of many minutes in openhands", 15, func(s *session, _ int) {
		s.do(isWait, "execute_bash", `{"command":"","is_input":"true"}`, "[Below is the output of the previous command.]\n\n[The command has no new output after 10.0 seconds. You may wait longer to see additional output by sending empty command '']")
		s.gap(14)
	}},
	{"tests, package after package", 50, func(s *session, n int) {
		s.codex(isLook, f("cargo test -p crate%d", n), 0, "test result: ok. 3 passed; 0 failed; 0 ignored; finished in 0.00s")
	}},
	{"benchmarks that are rerun to be sure", 12, func(s *session, n int) {
		s.claude(isLook, "go test -bench Parse -count 1", f("BenchmarkParse-8\t%d\t%d ns/op", 90000+n*17, 1200+n*13))
	}},
	{"sells and buys", 40, func(s *session, n int) {
		s.do(isLook, "get_quote", `{"symbol":"ACME"}`, f(`{"price":%d.%02d}`, 100+n%3, n*37%100))
		s.do(isChange, "place_order", f(`{"symbol":"ACME","side":"buy","limit":%d}`, 100-n), f(`{"order":"o%d"}`, n))
	}},
	{"asks twelve experts the same", 12, func(s *session, n int) {
		s.do(isLook, "ask_expert", f(`{"expert":%d,"question":"is it safe?"}`, n), "Yes, it is.")
	}},
	{"plays cards", 40, func(s *session, n int) {
		s.do(isDrive, "play", []string{`{"move":"hit"}`, `{"move":"stand"}`}[n%2], f(`{"hand":%d}`, 4+n*7%17))
	}},
	{"format, vet and test after each edit, quick", 30, func(s *session, n int) {
		s.edit("/a.go", f("a%d", n), f("b%d", n))
		s.claude(isChange, "gofmt -w .", "")
		s.gap(2)
		s.claude(isLook, "go vet ./...", "")
		s.gap(2)
		s.claude(isLook, "go test ./...", "ok  \ta\t(cached)")
		s.gap(2)
	}},
	{"several checks at once after each edit", 25, func(s *session, n int) {
		s.edit("/a.go", f("a%d", n), f("b%d", n))
		s.turns = append(s.turns, []loop.Step{
			s.one(isLook, "Bash", `{"command":"go vet ./..."}`, ""), s.one(isLook, "Bash", `{"command":"go test ./..."}`, "ok"),
			s.one(isLook, "Bash", `{"command":"git status --short"}`, " M a.go"),
		})
	}},
}

// A way is how a session is handed over.
type way struct {
	name           string
	declared, gaps bool
}

var ways = []way{{"guessed", false, true}, {"guessed, without gaps", false, false}, {"declared", true, true}, {"declared, without gaps", true, false}}

func (w way) judge(t *testing.T, turns [][]loop.Step) (f finding) {
	d := newDetector(t, loop.Config{})
	for i, turn := range turns {
		turn = append([]loop.Step(nil), turn...)
		for j := range turn {
			if !w.declared && turn[j].Class != loop.Person {
				turn[j].Class = ""
			}
			if !w.gaps {
				turn[j].Gap = 0
			}
		}
		f.step(d, i, turn)
	}
	return f
}

// likeLoops are healthy sessions that look like loops, and are asked about at most.
var likeLoops = []string{
	"waits for a run of CI, in words", "reads the output of a shell that runs", "forms in a browser that answers ok",
	"a log tailed that moves seldom", "customers from a queue that is empty at times",
	"generated migrations", "a pipeline, file after file, with a check", "a pipeline with a check that says the same, quick",
	"checks that twenty names are gone",
}

// TestHealthySessions protects the work of agents of today.
func TestHealthySessions(t *testing.T) {
	t.Log(len(healthySessions), "sessions")
	for _, w := range ways {
		asked := 0
		for _, c := range healthySessions {
			for seed := range racing.Rounds[uint64](2, 10) {
				s := &session{random: rand.New(rand.NewPCG(seed, 27))}
				for n := range c.rounds {
					c.do(s, n)
				}
				found := w.judge(t, s.turns)
				assert.Zero(t, found.ended, "%s: %s, %d: %+v of %d", w.name, c.name, seed, found, len(s.turns))
				if found.asked != 0 {
					asked++
					assert.Contains(t, likeLoops, c.name, "%s, %d: %+v of %d", w.name, seed, found, len(s.turns))
				}
			}
		}
		t.Log(w.name, asked, "asked of", racing.Rounds(2, 10)*len(healthySessions))
	}
}

// loopSessions are what a person calls a loop by its third or fourth round, each with the turn by which it is found.
var loopSessions = []struct {
	name   string
	by     int
	rounds int
	do     func(s *session, n int)
}{
	{"claude edits what is not there", 5, 12, func(s *session, _ int) {
		s.do(isChange, "Edit", `{"file_path":"/a.ts","old_string":"const a = 1","new_string":"const a = 2"}`, "<tool_use_error>String to replace not found in file.\nString: const a = 1</tool_use_error>")
	}},
	{"claude edits a file that it has not read", 5, 12, func(s *session, _ int) {
		s.do(isChange, "Write", `{"file_path":"/a.ts","content":"x"}`, "<tool_use_error>File has not been read yet. Read it first before writing to it.</tool_use_error>")
	}},
	{"codex applies a patch that does not fit", 5, 12, func(s *session, _ int) {
		s.do(isChange, "apply_patch", "*** Begin Patch\n*** Update File: a.py\n-x\n+y\n*** End Patch", "apply_patch verification failed: Failed to find expected lines in /w/a.py:\nx")
	}},
	{"codex runs a test that fails", 5, 12, func(s *session, _ int) {
		s.codex(isLook, "cargo test", 101, "test t ... FAILED\ntest result: FAILED. 3 passed; 1 failed; finished in 0.01s")
	}},
	{"codex runs a test that fails, read, run", 8, 10, func(s *session, _ int) {
		s.codex(isLook, "cargo test", 101, "test t ... FAILED\ntest result: FAILED. 3 passed; 1 failed; finished in 0.01s")
		s.codex(isLook, "sed -n '1,80p' src/lib.rs", 0, "fn a() {}")
	}},
	{"gemini replaces nothing", 5, 12, func(s *session, _ int) {
		s.do(isChange, "replace", f(`{"file_path":"/a","instruction":"again %d","old_string":"x","new_string":"y"}`, 0), "Error: Failed to edit, could not find the string to replace.")
	}},
	{"gemini lists a folder", 5, 12, func(s *session, _ int) {
		s.gemini(isLook, "ls -la src", 0, "a.ts\nb.ts")
	}},
	{"openhands views one file", 5, 12, func(s *session, _ int) {
		s.do(isLook, "str_replace_editor", `{"command":"view","path":"/w/a.py"}`, "Here's the result of running `cat -n` on /w/a.py:\n1\tx")
	}},
	{"openhands runs what fails", 5, 12, func(s *session, _ int) {
		s.hands(isLook, "python reproduce.py", 1, "Traceback (most recent call last):\n  File \"reproduce.py\", line 3\nImportError: no module x")
	}},
	{"cursor searches the same", 5, 12, func(s *session, n int) {
		s.do(isLook, "codebase_search", f(`{"query":"login","explanation":"look %d","target_directories":[]}`, n), "src/login.ts:1")
	}},
	{"cursor reads a file", 5, 12, func(s *session, n int) {
		s.do(isLook, "read_file", f(`{"target_file":"a.ts","should_read_entire_file":true,"explanation":"why %d"}`, n), "const a = 1")
	}},
	{"opencode edits and takes it back", 10, 10, func(s *session, _ int) {
		s.do(isChange, "edit", `{"filePath":"/a.ts","oldString":"x","newString":"y"}`, "Edit applied successfully.")
		s.do(isChange, "edit", `{"filePath":"/a.ts","oldString":"y","newString":"x"}`, "Edit applied successfully.")
	}},
	{"opencode edits, tests, takes it back", 15, 10, func(s *session, n int) {
		s.do(isChange, "edit", `{"filePath":"/a.ts","oldString":"x","newString":"y"}`, "Edit applied successfully.")
		s.open(isLook, "npm test", f("1 failing (%dms)", 30+n))
		s.do(isChange, "edit", `{"filePath":"/a.ts","oldString":"y","newString":"x"}`, "Edit applied successfully.")
		s.open(isLook, "npm test", f("2 failing (%dms)", 30+n))
	}},
	{"greps reworded", 14, 14, func(s *session, n int) {
		s.do(isLook, "Grep", []string{`{"pattern":"retry limit"}`, `{"pattern":"limit of retries"}`, `{"pattern":"max retry limit"}`, `{"pattern":"retries max"}`, `{"pattern":"retry max limit config"}`, `{"pattern":"config retry"}`, `{"pattern":"limit config"}`}[n%7], "No files found")
	}},
	{"web searches reworded", 16, 16, func(s *session, n int) {
		s.do(isLook, "web_search", []string{`{"query":"acme api rate limit"}`, `{"query":"rate limit of the acme api"}`, `{"query":"acme limit rate documentation"}`, `{"query":"documentation acme api limit"}`, `{"query":"api acme documentation rate"}`}[n%5], "No results found.")
	}},
	{"a customer asked for the same mail", 6, 12, func(s *session, _ int) {
		s.do(isLook, "find_user_id_by_email", `{"email":"ada@example.com"}`, "Error: user not found")
	}},
	{"an order that cannot be changed", 6, 12, func(s *session, _ int) {
		s.do(isChange, "modify_order", `{"order_id":"#W1","items":["1"]}`, "Error: non-pending order cannot be modified")
	}},
	{"a page opened and a cookie banner", 8, 12, func(s *session, _ int) {
		s.do(isLook, "open_page", `{"url":"https://a.example"}`, "Accept cookies?")
	}},
	{"a plan that is written again", 6, 12, func(s *session, _ int) {
		s.do(isChange, "update_plan", `{"plan":[{"step":"a","status":"in_progress"}]}`, "Plan updated")
	}},
	{"todos that are written again", 6, 12, func(s *session, _ int) {
		s.do(isChange, "TodoWrite", `{"todos":[{"content":"a","status":"in_progress"}]}`, "Todos have been modified successfully.")
	}},
	{"a tool that is not there", 5, 12, func(s *session, _ int) {
		s.do("", "run_code", f(`{"code":"print(%d)"}`, 1), "Error: unknown tool run_code")
	}},
	{"a sub-agent asked the same", 6, 12, func(s *session, _ int) {
		s.do(isLook, "Task", `{"subagent_type":"explore","prompt":"find the config"}`, f("I could not find it.\nagentId: a%06x", s.random.IntN(1<<24)))
		s.gap(4)
	}},
	{"npm install that fails", 5, 12, func(s *session, n int) {
		s.claude(isChange, "npm install", f("npm error code ERESOLVE\nnpm error A complete log of this run can be found in: /root/.npm/_logs/2026-11-22T17_0%d_00_123Z-debug-0.log", n%10))
	}},
	{"npm install and look at the log", 9, 12, func(s *session, n int) {
		s.claude(isChange, "npm install", f("npm error code ERESOLVE\nnpm error A complete log of this run can be found in: /root/.npm/_logs/2026-11-22T17_0%d_00_123Z-debug-0.log", n%10))
		s.claude(isLook, "cat package.json", "{}")
	}},
	{"a server that ends at once", 6, 12, func(s *session, _ int) {
		s.claude(isChange, "node server.js", f("[%s] Error: listen EADDRINUSE: address already in use :::3000", s.now()))
	}},
	{"kills and starts a server", 10, 10, func(s *session, _ int) {
		s.claude(isChange, "kill $(lsof -t -i:3000)", "")
		s.claude(isChange, "node server.js", "Error: listen EADDRINUSE: address already in use :::3000")
	}},
	{"three calls at once, again", 5, 10, func(s *session, _ int) {
		s.turns = append(s.turns, []loop.Step{s.one(isLook, "Read", `{"file_path":"/a"}`, "1→a"), s.one(isLook, "Read", `{"file_path":"/b"}`, "1→b"), s.one(isLook, "Grep", `{"pattern":"x"}`, "a:1")})
	}},
	{"an edit without end", 8, 12, func(s *session, n int) {
		s.do(isChange, "str_replace_editor", f(`{"command":"insert","path":"/a.py","insert_line":3,"new_str":%q}`, strings.Repeat("def helper(): pass\n", 8)), f("The file /a.py has been edited. %d lines", 40+n*8))
	}},
	{"git add and commit of nothing", 9, 10, func(s *session, _ int) {
		s.claude(isChange, "git add -A", "")
		s.claude(isChange, "git commit -m fix", "On branch main\nnothing to commit, working tree clean")
	}},
	{"git push that is rejected", 6, 10, func(s *session, _ int) {
		s.claude(isChange, "git push", "To github.com:a/b\n ! [rejected] main -> main (fetch first)\nerror: failed to push some refs")
	}},
	{"reads past the end", 14, 20, func(s *session, n int) {
		s.do(isLook, "Read", f(`{"file_path":"/a","offset":%d,"limit":100}`, 2000+n*100), "<system-reminder>Warning: the file exists but is shorter than the provided offset. The file has 300 lines.</system-reminder>")
	}},
	{"sql with the same mistake", 6, 12, func(s *session, _ int) {
		s.do(isLook, "run_query", `{"sql":"select nme from users"}`, f("ERROR: column \"nme\" does not exist\nLINE 1 at %s", s.now()))
	}},
	{"sql in other words, same mistake", 14, 14, func(s *session, n int) {
		s.do(isLook, "run_query", f(`{"sql":"select nme from users order by nme limit %d"}`, n+1), "ERROR: column \"nme\" does not exist")
	}},
	{"finish is refused", 6, 12, func(s *session, _ int) {
		s.do(isChange, "attempt_completion", `{"result":"done"}`, "The user has unticked items. You are not done.")
	}},
	{"circle of four reads", 13, 6, func(s *session, _ int) {
		for _, x := range []string{"a", "b", "c", "d"} {
			s.read("/"+x, x)
		}
	}},
	{"circle with new noise", 16, 12, func(s *session, n int) {
		s.claude(isLook, "npm run build", "error TS1005: ';' expected. src/a.ts:3")
		s.read(f("/doc%d", n), f("text %d", n))
	}},
	{"cd that fails, line numbered", 5, 12, func(s *session, n int) {
		s.open(isChange, "cd app && npm test", f("/bin/bash: line %d: cd: app: No such file or directory", 1000+n*7))
	}},
	{"reply that is sent again", 6, 12, func(s *session, _ int) {
		s.do(isChange, "send_message", `{"to":"ada","text":"I am on it."}`, `{"ok":true}`)
	}},
	{"a form that does not submit", 8, 12, func(s *session, _ int) {
		s.do(isLook, "browser_snapshot", `{}`, "- alert: Name is required")
		s.do(isDrive, "browser_click", `{"ref":"e9"}`, "Clicked")
	}},
	{"a pull request made again", 6, 12, func(s *session, _ int) {
		s.claude(isChange, "gh pr create --fill", "a pull request for branch \"fix\" into branch \"main\" already exists:\nhttps://github.com/a/b/pull/7")
	}},
}

// TestLoopSessions protects that loops of agents of today are found.
func TestLoopSessions(t *testing.T) {
	t.Log(len(loopSessions), "sessions")
	for _, w := range ways {
		found := 0
		for _, c := range loopSessions {
			s := &session{random: rand.New(rand.NewPCG(1, 27))}
			for n := range c.rounds {
				c.do(s, n)
			}
			if f := w.judge(t, s.turns); f.asked != 0 && f.asked <= c.by {
				found++
			} else {
				t.Logf("missed %s: %s: %+v", w.name, c.name, f)
			}
		}
		t.Log(w.name, found, "found")
		assert.Equal(t, len(loopSessions), found, w.name)
	}
}
