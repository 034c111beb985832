package agents_test

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed62658d38/watchdog/stall"
	"github.com/seed62658d38/watchdog/watchdogmcp"
)

// playMCP is a host that calls the tools of a server, which is a process, in place of a model. A turn that stalls is a
// call that tells its progress.
func playMCP(ctx context.Context, j *job, turns []turn) (told []string, err error) {
	var once bool
	client := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(context.Context, *mcp.ProgressNotificationClientRequest) {
			if !once {
				once = true
				_ = j.die()
			}
		},
	})
	watchdogmcp.New(watchdogmcp.Config{ShowProgress: true}).Attach(client)
	server, err := watchdogmcp.Command(context.WithoutCancel(ctx), self("server"), stall.Config{Step: "files"})
	if err != nil {
		return nil, err
	}
	defer func() {
		_, closed := server.Close()
		err = errors.Join(err, closed)
	}()
	session, err := client.Connect(context.WithoutCancel(ctx), server, nil)
	if err != nil {
		return nil, err
	}
	for _, next := range turns {
		if next.stalls {
			next.tool = "progress"
		}
		if next.tool == "approve" {
			_, err := j.use(ctx, next.tool, 0)
			return told, err
		}
		result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: next.tool, Arguments: map[string]any{"n": next.input}})
		if err != nil {
			return told, err
		}
		text := ""
		for _, content := range result.Content {
			text += content.(*mcp.TextContent).Text + "\n"
		}
		if told = append(told, text); !result.IsError {
			j.made++
		}
	}
	return told, nil
}

// serve is the server, which has the same tools.
func serve(ctx context.Context) error {
	server := mcp.NewServer(&mcp.Implementation{Name: "files", Version: "1"}, nil)
	add := func(name string, do func(*mcp.CallToolRequest) (string, error)) {
		server.AddTool(&mcp.Tool{Name: name, InputSchema: map[string]any{"type": "object"}},
			func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				text, err := do(req)
				return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, err
			})
	}
	add("look", func(*mcp.CallToolRequest) (string, error) { return "nothing", nil })
	add("work", func(req *mcp.CallToolRequest) (string, error) {
		return fmt.Sprintf("worked at %s", req.Params.Arguments), nil
	})
	tell := func(req *mcp.CallToolRequest) error {
		return req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
			ProgressToken: req.Params.GetProgressToken(), Progress: float64(time.Now().UnixMilli()),
		})
	}
	add("hang", func(req *mcp.CallToolRequest) (string, error) {
		daemon := self("daemon")
		daemon.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := daemon.Start(); err != nil {
			return "", err
		}
		return "", errors.Join(tell(req), stay())
	})
	add("progress", func(req *mcp.CallToolRequest) (string, error) {
		for {
			if err := tell(req); err != nil {
				return "", err
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
	return server.Run(ctx, &mcp.StdioTransport{})
}
