// Package host stands for the program that the snippets of the adapters' documents are part of.
package host

import (
	"context"
	"time"

	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/components/tool"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/genai"

	"google.golang.org/adk/v2/runner"

	adkmodel "google.golang.org/adk/v2/model"
	adksession "google.golang.org/adk/v2/session"
	adktool "google.golang.org/adk/v2/tool"

	"github.com/seed62658d38/watchdog"
)

var (
	ctx       context.Context
	wd        *watchdog.Watchdog
	store     *watchdog.Memory
	id        string
	startedAt time.Time
)

// What an agent of the ADK is made of.
var (
	llm           adkmodel.LLM
	search, build adktool.Tool
	files         adktool.Toolset
	agents        *runner.Runner
	user, session string
	message       *genai.Content
	show          func(*adksession.Event, error)
)

// What a graph of eino is made of.
var (
	chat  model.ToolCallingChatModel
	tools []tool.BaseTool
)

// A client of MCP, and what it sends.
var (
	client *mcp.Client
	params *mcp.CallToolParams
	args   map[string]any
)
