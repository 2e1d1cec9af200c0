/* Requests to models and servers of tools: a policy, a body, a verdict. Bodies come a byte at a
 * time, too. In policies and bodies ' stands for ". */
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h> /* before cmocka */

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "proto/http_headers.h"
#include "rules/call.h"
#include "rules/rules.h"

#define MESSAGES     "/v1/messages"
#define CHAT	     "/v1/chat/completions"
#define RESPONSES    "/v1/responses"
#define GENERATE     "/v1beta/models/gemini-2.5-pro:generateContent"
#define STREAM	     "/v1beta/models/gemini-2.5-flash:streamGenerateContent"
#define MCP	     "/mcp"
#define LIST(action) "{'version':1,'default':'" action "','rules':["
#define CALL(params) "{'jsonrpc':'2.0','id':1,'method':'tools/call','params':" params "}"

static const char strict[] =
	LIST("deny") "{'id':'claude','action':'allow','api':'anthropic','models':'claude-sonnet-*',"
		     "'maxTokens':4096,'serverTools':false,'tools':['bash','edit_*']},"
		     "{'id':'gpt','action':'allow','api':'openai','models':['gpt-5*','o4-mini'],"
		     "'maxTokens':4096,'serverTools':['web_search*']},"
		     "{'id':'gemini','action':'allow','api':'google','models':'gemini-2.5-*',"
		     "'maxTokens':4096,'serverTools':false}]}";

static const char open[] =
	LIST("allow") "{'id':'dear','action':'deny','models':'*opus*','reason':'too dear'},"
		      "{'id':'fetches','action':'deny','serverTools':['web_fetch','url_source']},"
		      "{'id':'shell','action':'ask','tools':'shell'}]}";

static const char by_api[] =
	LIST("deny") "{'id':'any','action':'allow','api':['anthropic','openai']}]}";

static const char any_mcp[] = LIST("deny") "{'id':'any','action':'allow','api':'mcp'}]}";

static const char no_mcp[] = LIST("allow") "{'id':'no','action':'deny','api':'mcp'}]}";

static const char seen[] = LIST("allow") "{'id':'seen','action':'log','models':'gpt-*'},"
					 "{'id':'none','action':'deny','serverTools':true}]}";

static const char tools[] =
	LIST("deny") "{'id':'drop','action':'deny','api':'mcp','tools':'drop_*'},"
		     "{'id':'pay','action':'ask','api':'mcp','tools':'pay'},"
		     "{'id':'write','action':'allow','api':'mcp','tools':'write','arguments':"
		     "[{'at':'/path','prefix':'/tmp/'},{'at':'/mode','equals':420}]},"
		     "{'id':'read','action':'allow','api':'mcp','tools':['read_*','search']}]}";

static const char asks[] = LIST("allow") "{'id':'pay','action':'ask','api':'mcp','tools':'pay_*'},"
					 "{'id':'rest','action':'ask','api':'mcp'}]}";

static const struct row {
	const char *policy, *method, *path, *body, *verdict, *rule;
} rows[] = {
	/* slashes are matched by asterisks of rules that deny (below), not of those that allow */
	{strict, "POST", CHAT, "{'model':'gpt-5/other','max_tokens':1,'messages':[]}", "deny",
		"default"},
	{strict, "POST", CHAT, "{'model':'gpt-5.other','max_tokens':1,'messages':[]}", "allow",
		"gpt"},
	/* Anthropic */
	{strict, "POST", MESSAGES, "{'model':'claude-sonnet-4-5','max_tokens':100,'messages':[]}",
		"allow", "claude"},
	{strict, "POST", MESSAGES,
		" {\n'messages':[], 'max_tokens':4096, 'model':'claude-sonnet-4-5'}\n", "allow",
		"claude"},
	{strict, "POST", "/proxy/v1/messages", "{'model':'claude-sonnet-4-5','max_tokens':1}",
		"allow", "claude"},
	{strict, "POST", "/V1/Messages/", "{'model':'claude-sonnet-4-5','max_tokens':1}", "allow",
		"claude"},
	{strict, "POST", MESSAGES, "{'model':'Claude-Sonnet-4-5','max_tokens':1}", "allow",
		"claude"},
	{strict, "POST", MESSAGES, "{'model':'claude-opus-4-1','max_tokens':1}", "deny", "default"},
	{strict, "POST", MESSAGES, "{'model':'claude-sonnet-4-5','max_tokens':4097}", "deny",
		"default"},
	{strict, "POST", MESSAGES, "{'model':'claude-sonnet-4-5','max_tokens':4096.5}", "deny",
		"default"},
	{strict, "POST", MESSAGES, "{'model':'claude-sonnet-4-5','max_tokens':4.096e3}", "allow",
		"claude"},
	{strict, "POST", MESSAGES, "{'model':'claude-sonnet-4-5','max_tokens':'4096'}", "allow",
		"claude"},
	{strict, "POST", MESSAGES, "{'model':'claude-sonnet-4-5','max_tokens':'many'}", "deny",
		"claude"},
	{strict, "POST", MESSAGES, "{'model':'claude-sonnet-4-5','max_tokens':-1}", "deny",
		"claude"},
	{strict, "POST", MESSAGES, "{'model':'claude-sonnet-4-5','max_tokens':1e400}", "deny",
		"claude"},
	{strict, "POST", MESSAGES, "{'model':'claude-sonnet-4-5','max_tokens':[1]}", "deny",
		"claude"},
	{strict, "POST", MESSAGES, "{'model':'claude-sonnet-4-5','max_tokens':null}", "deny",
		"default"},
	{strict, "POST", MESSAGES, "{'model':'claude-sonnet-4-5'}", "deny", "default"},
	{strict, "POST", MESSAGES, "{'max_tokens':1}", "deny", "default"},
	{strict, "POST", MESSAGES, "{'model':['claude-sonnet-4-5'],'max_tokens':1}", "deny",
		"claude"},
	{strict, "GET", MESSAGES, "", "deny", "default"},
	{strict, "POST", "/v1/messages/batches", "{'model':'claude-sonnet-4-5','max_tokens':1}",
		"deny", "default"},
	{strict, "POST", "/v1/models", "{}", "deny", "default"},
	/* twice, in another spelling, in escapes */
	{strict, "POST", MESSAGES,
		"{'model':'claude-sonnet-4-5','max_tokens':1,'model':'claude-opus-4'}", "deny",
		"claude"},
	{strict, "POST", MESSAGES,
		"{'model':'claude-sonnet-4-5','max_tokens':1,'Model':'claude-opus-4'}", "deny",
		"claude"},
	{strict, "POST", MESSAGES, "{'model':'claude-sonnet-4-5','max_tokens':1,'\\u006dodel':'x'}",
		"deny", "claude"},
	{strict, "POST", MESSAGES, "{'model':'claude-sonnet-4-5','max_tokens':1,'maxTokens':9999}",
		"deny", "claude"},
	{strict, "POST", MESSAGES,
		"{'model':'claude-sonnet-4-5','max_tokens':1,'max_output_tokens':9999}", "deny",
		"default"},
	{strict, "POST", MESSAGES,
		"{'model':'claude-sonnet-4-5','max_tokens':1,'tool\xc5\xbf':[{'type':'web_fetch_"
		"20250910','name':'w'}]}",
		"deny", "default"},
	{strict, "POST", MESSAGES, "{'\\u006dodel':'claude-sonnet-4-5','max\\u005ftokens':1}",
		"allow", "claude"},
	{strict, "POST", MESSAGES, "{'model':'claude-sonnet-4-5\\u0000','max_tokens':1}", "deny",
		"claude"},
	/* no strict JSON */
	{strict, "POST", MESSAGES, "", "deny", "claude"},
	{strict, "POST", MESSAGES, "{'model':'claude-sonnet-4-5','max_tokens':1", "deny", "claude"},
	{strict, "POST", MESSAGES, "{'model':'claude-sonnet-4-5','max_tokens':1}{}", "deny",
		"claude"},
	{strict, "POST", MESSAGES, "{'model':'claude-sonnet-4-5','max_tokens':1,}", "deny",
		"claude"},
	{strict, "POST", MESSAGES, "{'model':'claude-sonnet-4-5','max_tokens':01}", "deny",
		"claude"},
	{strict, "POST", MESSAGES, "{'model':'claude-sonnet-4-5','max_tokens':NaN}", "deny",
		"claude"},
	{strict, "POST", MESSAGES, "{'model':'claude-sonnet-4-5',/**/'max_tokens':1}", "deny",
		"claude"},
	{strict, "POST", MESSAGES, "\xef\xbb\xbf{'model':'claude-sonnet-4-5','max_tokens':1}",
		"deny", "claude"},
	{strict, "POST", MESSAGES, "{'model':'claude-sonnet-4-5','max_tokens':1,'x':'\xff'}",
		"deny", "claude"},
	{strict, "POST", MESSAGES, "{'model':'claude-sonnet-4-5','max_tokens':1,'x':'\\ud800'}",
		"deny", "claude"},
	{strict, "POST", MESSAGES, "[{'model':'claude-sonnet-4-5','max_tokens':1}]", "deny",
		"claude"},
	{strict, "POST", MESSAGES,
		"{'model':'claude-sonnet-4-5','max_tokens':1,'x':[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["
		"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]"
		"]]]]]]]]]]]]]}",
		"deny", "claude"},
	/* tools */
	{strict, "POST", MESSAGES,
		"{'model':'claude-sonnet-4-5','max_tokens':1,'tools':[{'name':'edit_file','input_"
		"schema':{'type':'object','properties':{'type':{'type':'string'},'name':{},'source'"
		":{'type':'string'}}}}]}",
		"allow", "claude"},
	{strict, "POST", MESSAGES,
		"{'model':'claude-sonnet-4-5','max_tokens':1,'tools':[{'name':'edit_file'},{'name':"
		"'deploy'}]}",
		"deny", "default"},
	{strict, "POST", MESSAGES,
		"{'model':'claude-sonnet-4-5','max_tokens':1,'tools':[{'type':'bash_20250124','"
		"name':'bash'}]}",
		"allow", "claude"},
	{strict, "POST", MESSAGES,
		"{'model':'claude-sonnet-4-5','max_tokens':1,'tools':[{'type':'web_search_20250305'"
		",'name':'bash'}]}",
		"deny", "default"},
	{strict, "POST", MESSAGES,
		"{'model':'claude-sonnet-4-5','max_tokens':1,'tools':[{'name':'bash','type':'code_"
		"execution_20250825'}]}",
		"deny", "default"},
	{strict, "POST", MESSAGES,
		"{'model':'claude-sonnet-4-5','max_tokens':1,'tools':[{'type':'teleport_20290101','"
		"name':'bash'}]}",
		"deny", "default"},
	{strict, "POST", MESSAGES,
		"{'model':'claude-sonnet-4-5','max_tokens':1,'tools':{'0':{'type':'web_search_"
		"20250305'}}}",
		"deny", "claude"},
	{strict, "POST", MESSAGES, "{'model':'claude-sonnet-4-5','max_tokens':1,'tools':['bash']}",
		"deny", "claude"},
	{strict, "POST", MESSAGES,
		"{'model':'claude-sonnet-4-5','max_tokens':1,'tools':[{'name':'bash','type':'"
		"custom','type':'web_fetch_20250910'}]}",
		"deny", "claude"},
	{strict, "POST", MESSAGES,
		"{'model':'claude-sonnet-4-5','max_tokens':1,'mcp_servers':[{'type':'url','url':'"
		"https://x.test'}]}",
		"deny", "default"},
	{strict, "POST", MESSAGES,
		"{'model':'claude-sonnet-4-5','max_tokens':1,'tools':[{'googleSearch':{}}]}",
		"deny", "default"},
	{strict, "POST", MESSAGES, "{'model':'claude-sonnet-4-5','max_tokens':1,'mcp_servers':[]}",
		"allow", "claude"},
	{strict, "POST", MESSAGES,
		"{'model':'claude-sonnet-4-5','max_tokens':1,'container':{'skills':[]}}", "deny",
		"default"},
	{strict, "POST", MESSAGES,
		"{'model':'claude-sonnet-4-5','max_tokens':1,'container':null,'future':{'a':[1,2]}"
		"}",
		"allow", "claude"},
	/* sources */
	{strict, "POST", MESSAGES,
		"{'model':'claude-sonnet-4-5','max_tokens':1,'messages':[{'role':'user','content':["
		"{'type':'image','source':{'type':'base64','data':'aGk='}}]}]}",
		"allow", "claude"},
	{strict, "POST", MESSAGES,
		"{'model':'claude-sonnet-4-5','max_tokens':1,'messages':[{'role':'user','content':["
		"{'type':'image','source':{'type':'url','url':'https://x.test/?q=secret'}}]}]}",
		"deny", "default"},
	{strict, "POST", MESSAGES,
		"{'model':'claude-sonnet-4-5','max_tokens':1,'messages':[{'role':'user','content':["
		"{'type':'tool_result','content':[{'type':'document','source':{'url':'https://"
		"x.test','type':'url'}}]}]}]}",
		"deny", "default"},
	{strict, "POST", MESSAGES,
		"{'model':'claude-sonnet-4-5','max_tokens':1,'messages':[{'role':'user','content':["
		"{'type':'document','source':{'type':'file','file_id':'f'}}]}]}",
		"deny", "default"},
	{strict, "POST", MESSAGES,
		"{'model':'claude-sonnet-4-5','max_tokens':1,'messages':[{'role':'user','content':["
		"{'type':'document','source':{'type':'elsewhere'}}]}]}",
		"deny", "default"},
	{strict, "POST", MESSAGES,
		"{'model':'claude-sonnet-4-5','max_tokens':1,'messages':[{'role':'assistant','"
		"content':[{'type':'tool_use','id':'t','name':'bash','input':{'source':{'type':'"
		"url','url':'https://x.test'},'file_id':'f'}}]}]}",
		"allow", "claude"},
	{strict, "POST", MESSAGES,
		"{'model':'claude-sonnet-4-5','max_tokens':1,'messages':[{'role':'user','content':'"
		"the type url, a file_id and tools'}]}",
		"allow", "claude"},
	/* OpenAI */
	{strict, "POST", CHAT, "{'model':'gpt-5-mini','max_completion_tokens':10,'messages':[]}",
		"allow", "gpt"},
	{strict, "POST", CHAT, "{'model':'o4-mini','max_tokens':10}", "allow", "gpt"},
	{strict, "POST", CHAT, "{'model':'o4-mini-high','max_tokens':10}", "deny", "default"},
	{strict, "POST", CHAT, "{'model':'gpt-5','max_tokens':10,'max_completion_tokens':5000}",
		"deny", "default"},
	{strict, "POST", CHAT, "{'model':'gpt-5','messages':[]}", "deny", "default"},
	{strict, "POST", "/openai/deployments/gpt-5-prod/chat/completions", "{'max_tokens':10}",
		"allow", "gpt"},
	{strict, "POST", "/openai/deployments/gpt-4/chat/completions",
		"{'max_tokens':10,'model':'gpt-5'}", "deny", "gpt"},
	{strict, "POST", CHAT,
		"{'model':'gpt-5','max_tokens':10,'tools':[{'type':'function','function':{'name':'"
		"f','parameters':{'type':'object'}}}]}",
		"allow", "gpt"},
	{strict, "POST", CHAT, "{'model':'gpt-5','max_tokens':10,'web_search_options':{}}", "allow",
		"gpt"},
	{strict, "POST", CHAT, "{'model':'gpt-5','max_tokens':10,'plugins':[{'id':'web'}]}", "deny",
		"default"},
	{strict, "POST", CHAT, "{'model':'gpt-5','max_tokens':10,'models':['gpt-4']}", "deny",
		"default"},
	{strict, "POST", CHAT,
		"{'model':'gpt-5','max_tokens':10,'messages':[{'role':'user','content':[{'type':'"
		"image_url','image_url':{'url':'https://x.test/a.png'}}]}]}",
		"deny", "default"},
	{strict, "POST", CHAT,
		"{'model':'gpt-5','max_tokens':10,'messages':[{'role':'user','content':[{'type':'"
		"image_url','image_url':{'url':'data:image/png;base64,aGk='}}]}]}",
		"allow", "gpt"},
	{strict, "POST", CHAT,
		"{'model':'gpt-5','max_tokens':10,'messages':[{'role':'user','content':[{'type':'"
		"file','file':{'file_id':'f'}}]}]}",
		"deny", "default"},
	{strict, "POST", CHAT,
		"{'model':'gpt-5','max_tokens':10,'response_format':{'type':'json_schema','json_"
		"schema':{'name':'n','schema':{'properties':{'source':{'type':'string'}}}}}}",
		"allow", "gpt"},
	{strict, "POST", RESPONSES,
		"{'model':'gpt-5','max_output_tokens':10,'input':'hi','tools':[{'type':'function','"
		"name':'f'},{'type':'web_search_preview'}]}",
		"allow", "gpt"},
	{strict, "POST", RESPONSES,
		"{'model':'gpt-5','max_output_tokens':10,'input':'hi','tools':[{'type':'mcp','"
		"server_url':'https://x.test'}]}",
		"deny", "default"},
	{strict, "POST", RESPONSES,
		"{'model':'gpt-5','max_output_tokens':10,'input':'hi','tools':[{'name':'f'}]}",
		"deny", "default"},
	{strict, "POST", RESPONSES,
		"{'model':'gpt-5','max_output_tokens':10,'prompt':{'id':'pmpt_1'}}", "deny",
		"default"},
	{strict, "POST", RESPONSES,
		"{'model':'gpt-5','max_output_tokens':10,'input':[{'role':'user','content':[{'type'"
		":'input_image','image_url':'https://x.test'}]}]}",
		"deny", "default"},
	{strict, "POST", RESPONSES,
		"{'model':'gpt-5','max_output_tokens':10,'input':[{'type':'function_call_output','"
		"output':[{'type':'input_file','file_url':'https://x.test'}]}]}",
		"deny", "default"},
	{strict, "POST", RESPONSES,
		"{'model':'gpt-5','max_output_tokens':10,'input':[{'type':'custom_tool_call','"
		"input':'x','arguments':'{}'}]}",
		"allow", "gpt"},
	/* Google */
	{strict, "POST", GENERATE,
		"{'contents':[{'parts':[{'text':'hi'}]}],'generationConfig':{'maxOutputTokens':10}"
		"}",
		"allow", "gemini"},
	{strict, "POST", STREAM, "{'contents':[],'generation_config':{'max_output_tokens':10}}",
		"allow", "gemini"},
	{strict, "POST", GENERATE,
		"{'contents':[],'generationConfig':{'maxOutputTokens':10,'max_output_tokens':99999}"
		"}",
		"deny", "gemini"},
	{strict, "POST", GENERATE,
		"{'contents':[],'generationConfig':{'maxOutputTokens':10},'generation_config':{}}",
		"deny", "gemini"},
	{strict, "POST", GENERATE, "{'contents':[]}", "deny", "default"},
	{strict, "POST", "/v1beta/models/gemini-1.5-pro:generateContent",
		"{'generationConfig':{'maxOutputTokens':10}}", "deny", "default"},
	{strict, "POST", GENERATE,
		"{'model':'models/other','generationConfig':{'maxOutputTokens':10}}", "deny",
		"gemini"},
	{strict, "POST", GENERATE,
		"{'generationConfig':{'maxOutputTokens':10},'tools':[{'functionDeclarations':[{'"
		"name':'f','parameters':{'type':'OBJECT'}}]}]}",
		"allow", "gemini"},
	{strict, "POST", GENERATE,
		"{'generationConfig':{'maxOutputTokens':10},'tools':[{'functionDeclarations':[],'"
		"googleSearch':{}}]}",
		"deny", "default"},
	{strict, "POST", GENERATE,
		"{'generationConfig':{'maxOutputTokens':10},'tools':[{'url_context':{}}]}", "deny",
		"default"},
	{strict, "POST", GENERATE,
		"{'generationConfig':{'maxOutputTokens':10},'tools':[{'somethingNew':{}}]}", "deny",
		"default"},
	{strict, "POST", GENERATE,
		"{'generationConfig':{'maxOutputTokens':10},'cachedContent':'cachedContents/1'}",
		"deny", "default"},
	{strict, "POST", GENERATE,
		"{'generationConfig':{'maxOutputTokens':10},'contents':[{'parts':[{'fileData':{'"
		"fileUri':'https://x.test'}}]}]}",
		"deny", "default"},
	{strict, "POST", GENERATE,
		"{'generationConfig':{'maxOutputTokens':10},'contents':[{'parts':[{'functionCall':{"
		"'name':'f','args':{'file_uri':'x'}}},{'functionResponse':{'name':'f','response':{'"
		"file_id':1}}}]}]}",
		"allow", "gemini"},
	/* rules that deny and ask */
	{open, "POST", MESSAGES, "{'model':'claude-opus-4-1'}", "deny", "dear"},
	{open, "POST", MESSAGES, "{'model':'claude-haiku','_method':'PUT'}", "deny", "dear"},
	{open, "POST", MESSAGES, "{'model':'claude-haiku','\\u005fMethod':'PUT'}", "deny", "dear"},
	{open, "POST", MESSAGES, "{'model':'claude-haiku','metadata':{'_method':'PUT'}}", "allow",
		"default"},
	{open, "POST", MESSAGES " ", "{'model':'claude-opus-4-1'}", "deny", "dear"},
	{open, "POST", CHAT, "{'model':'some/claude-opus'}", "deny", "dear"},
	{open, "POST", MESSAGES,
		"{'model':'claude-haiku','tools':[{'name':'a'},{'type':'web_fetch_20250910'}]}",
		"deny", "fetches"},
	{open, "POST", MESSAGES, "{'model':'claude-haiku','tools':[{'name':'a'},{'name':'shell'}]}",
		"ask", "shell"},
	{open, "POST", CHAT, "{'model':'x','tools':[{'function':{'name':'shell'}}]}", "ask",
		"shell"},
	{open, "POST", RESPONSES, "{'model':'x','tools':[{'name':'shell'}]}", "ask", "shell"},
	{open, "POST", CHAT, "{'model':'x','tools':[{'Type':'web_search','name':'shell'}]}", "deny",
		"dear"},
	{open, "POST", CHAT,
		"{'model':'x','tools':[{'type':'function','function':{'name':'shell'},"
		"'name':'a'}]}",
		"deny", "dear"},
	{open, "POST", CHAT, "{'model':'x','tools':[{'type\\u0000':'x','name':'shell'}]}", "deny",
		"dear"},
	{open, "POST", CHAT, "{'Model':'x'}", "deny", "dear"},
	{open, "POST", MESSAGES, "{'model':'x','metadata':{'Name':'x','Type':'y'}}", "allow",
		"default"},
	{strict, "POST", MESSAGES, "{'model':'claude-sonnet-4','maxtokens':1}", "deny", "claude"},
	{strict, "POST", GENERATE, "{'generationConfig':{'maxOutputTokens':1}}", "allow", "gemini"},
	{strict, "POST", GENERATE, "{'generationConfig':{'max_output_tokens':1}}", "allow",
		"gemini"},
	{strict, "POST", GENERATE, "{'generationConfig':{'MaxOutputTokens':1}}", "deny", "gemini"},
	{open, "POST", MESSAGES, "{'model':'x','tools':[{'type':'','name':'shell'}]}", "ask",
		"shell"},
	{seen, "POST", CHAT, "{'model':'gpt-5','tools':[{'name':'shell'}]}", "deny", "none"},
	{open, "POST", MESSAGES, "{'model':'claude-haiku','tools':[{'name':'a'}]}", "allow",
		"default"},
	{open, "POST", MESSAGES, "not json", "deny", "dear"},
	{open, "PUT", MESSAGES, "{'model':'claude-opus-4-1'}", "deny", "dear"},
	{open, "POST", "/v1/files", "not json", "allow", "default"},
	{by_api, "POST", MESSAGES, "not json", "allow", "any"},
	{by_api, "POST", GENERATE, "{}", "deny", "default"},
	{by_api, "DELETE", CHAT, "", "deny", "default"},
	{seen, "POST", CHAT, "{'model':'gpt-5'}", "allow", "default"},
	{seen, "POST", CHAT, "{'model':'gpt-5','web_search_options':{}}", "deny", "none"},
	/* MCP */
	{any_mcp, "POST", MCP, "{'jsonrpc':'2.0','id':1,'method':'resources/read'}", "allow",
		"any"},
	{any_mcp, "POST", MCP, "not json", "deny", "any"},
	{any_mcp, "GET", MCP, "", "allow", "any"},
	{no_mcp, "GET", MCP, "", "deny", "no"},
	{no_mcp, "POST", MCP, "not json", "deny", "no"},
	{tools, "POST", MCP, "{'jsonrpc':'2.0','id':0,'method':'initialize','params':{}}", "allow",
		"write"},
	{tools, "POST", MCP, "{'jsonrpc':'2.0','method':'notifications/initialized'}", "allow",
		"write"},
	{tools, "POST", MCP, "{'jsonrpc':'2.0','id':3,'result':{}}", "allow", "write"},
	{tools, "POST", MCP, "{'jsonrpc':'2.0','id':1,'method':'resources/read','params':{}}",
		"deny", "default"},
	{tools, "GET", MCP, "", "allow", "write"},
	{tools, "GET", MCP, CALL("{'name':'drop_all'}"), "deny", "drop"},
	{tools, "DELETE", MCP, CALL("{'name':'other'}"), "deny", "default"},
	{tools, "DELETE", MCP, CALL("{'name':'search'}"), "allow", "read"},
	{tools, "POST", MCP, CALL("{'name':'read_file','arguments':{}}"), "allow", "read"},
	{tools, "POST", MCP, CALL("{'name':'search'}"), "allow", "read"},
	{tools, "POST", MCP, CALL("{'name':'drop_table','arguments':{}}"), "deny", "drop"},
	{tools, "POST", MCP, CALL("{'name':'pay','arguments':{'amount':1}}"), "ask", "pay"},
	{tools, "POST", MCP, CALL("{'name':'other'}"), "deny", "default"},
	{tools, "POST", MCP, CALL("{'name':'write','arguments':{'path':'/tmp/x','mode':420}}"),
		"allow", "write"},
	{tools, "POST", MCP, CALL("{'name':'write','arguments':{'path':'/tmp/x','mode':420.0}}"),
		"allow", "write"},
	{tools, "POST", MCP, CALL("{'name':'write','arguments':{'path':'/etc/x','mode':420}}"),
		"deny", "default"},
	{tools, "POST", MCP,
		CALL("{'name':'write','arguments':{'path':'/tmp/../etc/x','mode':420}}"), "deny",
		"default"},
	{tools, "POST", MCP, CALL("{'name':'write','arguments':{'path':'/tmp/x'}}"), "deny",
		"default"},
	{tools, "POST", MCP,
		CALL("{'name':'write','arguments':{'path':'/tmp/x','path':'/etc','mode':420}}"),
		"deny", "drop"},
	{tools, "POST", MCP, CALL("{'name':'search','Name':'drop_table'}"), "deny", "drop"},
	{tools, "POST", MCP, CALL("{'name':['drop_table']}"), "deny", "drop"},
	{tools, "POST", MCP,
		"{'id':1,'method':'tools/call','Method':'ping','params':{'name':'search'}}", "deny",
		"drop"},
	{tools, "POST", MCP,
		"{'id':1,'method':'tools/call','_METHOD':'PUT','params':{'name':'search'}}", "deny",
		"drop"},
	{tools, "POST", MCP, "[" CALL("{'name':'search'}") "," CALL("{'name':'drop_it'}") "]",
		"deny", "drop"},
	{tools, "POST", MCP, "[" CALL("{'name':'search'}") "," CALL("{'name':'pay'}") "]", "ask",
		"pay"},
	{tools, "POST", MCP, "[" CALL("{'name':'search'}") "," CALL("{'name':'read_it'}") "]",
		"allow", "read"},
	{asks, "POST", MCP, "[" CALL("{'name':'pay_a'}") "," CALL("{'name':'pay_b'}") "]", "ask",
		"pay"},
	{asks, "POST", MCP, "[" CALL("{'name':'look'}") "," CALL("{'name':'pay_b'}") "]", "deny",
		"rest"}, /* a person answers one rule */
	{tools, "POST", MCP, "[]", "deny", "drop"},
	{tools, "POST", MCP, "{},'x':{}", "deny", "drop"},
	{tools, "POST", MCP, "'text'", "deny", "drop"},
	{tools, "POST", MCP, "", "deny", "drop"},
};

static char *quoted(const char *text)
{
	char *copy = strdup(text);

	assert_non_null(copy);
	for (char *s = copy; *s; s++)
		if (*s == '\'')
			*s = '"';
	return copy;
}

static struct rules rules_of(const char *text)
{
	_cleanup_free_ char *copy = quoted(text);
	struct error e = {0};
	struct policy_at top = {.e = &e};
	json_t *v = json_loads(copy, 0, NULL);
	struct rules r;

	assert_non_null(v);
	if (rules_make(&top, v, RULES_MAX, &r) < 0)
		fail_msg("%s", e.message);
	json_decref(v);
	return r;
}

/* As the worker does: first without the body, and with it if that is needed. */
static void check_row(const struct row *row, size_t n, size_t piece)
{
	_cleanup_free_ char *body = quoted(row->body);
	struct rules r = rules_of(row->policy);
	struct rules_question q = {.kind = RULES_REQUEST,
		.name = "api.test",
		.port = 443,
		.tls = true,
		.method = row->method,
		.path = row->path,
		.has_body = *body != '\0'};
	struct rules_verdict v = rules_judge(&r, &q);
	struct call_reader *reader = NULL;
	size_t bytes = strlen(body);

	if (v.body) {
		reader = call_reader_new(v.body, row->path, NULL);
		assert_non_null(reader);
		for (size_t at = 0; at < bytes; at += piece)
			(void)call_reader_feed(
				reader, body + at, bytes - at < piece ? bytes - at : piece);
		q.call = call_reader_end(reader);
		v = rules_judge(&r, &q);
		assert_int_equal(v.body, 0);
	}
	if (strcmp(rules_action_word(v.action), row->verdict) != 0 ||
		strcmp(rules_id(v.rule), row->rule) != 0)
		fail_msg("%zu: %s %s: %s by %s%s%s", n, row->path, row->body,
			rules_action_word(v.action), rules_id(v.rule), v.unclear ? ": " : "",
			v.unclear ? v.unclear : "");
	call_reader_free(reader);
	rules_done(&r);
}

static void table_of_bodies(void **state)
{
	assert_true(ARRAY_SIZE(rows) >= 100);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		check_row(&rows[i], i, SIZE_MAX / 2);
		check_row(&rows[i], i, 1);
	}
}

static const char *unclear_with(const char *type, const char *coding)
{
	struct http_header fields[] = {{"content-type", type, 12, strlen(type)},
		{"content-encoding", coding, 16, coding ? strlen(coding) : 0}};
	struct http_headers h = {.items = fields, .count = coding ? 2 : 1};
	struct call_reader *r = call_reader_new(CALL_ANTHROPIC, MESSAGES, &h);
	const char *why;

	(void)call_reader_feed(r, "{}", 2);
	why = call_reader_end(r)->unclear;
	call_reader_free(r);
	return why;
}

static void headers_must_say_json(void **state)
{
	assert_null(unclear_with("application/json", NULL));
	assert_null(unclear_with("Application/JSON; charset=UTF-8", "identity"));
	assert_non_null(unclear_with("application/json; charset=utf-16", NULL));
	assert_non_null(unclear_with("application/jsonp", NULL));
	assert_non_null(unclear_with("text/plain", NULL));
	assert_non_null(unclear_with("application/json", "gzip"));
}

static void large_bodies_are_unclear(void **state)
{
	struct call_reader *r = call_reader_new(CALL_ANTHROPIC, MESSAGES, NULL);
	static const char begin[] = "{\"model\":\"m\",\"x\":\"", end[] = "\"}";
	size_t left = CALL_BODY_MAX - sizeof(begin) - sizeof(end) + 2;
	char *text = malloc(CALL_BODY_MAX);

	assert_non_null(text);
	memset(text, 'a', CALL_BODY_MAX);
	assert_true(call_reader_feed(r, begin, sizeof(begin) - 1));
	assert_true(call_reader_feed(r, text, left));
	assert_true(call_reader_feed(r, end, sizeof(end) - 1));
	assert_null(call_reader_end(r)->unclear);
	assert_string_equal(call_reader_end(r)->model, "m");
	assert_false(call_reader_feed(r, " ", 1));
	assert_string_equal(call_reader_end(r)->unclear, "its body is larger than 4 MiB");
	call_reader_free(r);
	free(text);
}

static void tools_are_bounded(void **state)
{
	struct call_reader *r = call_reader_new(CALL_ANTHROPIC, MESSAGES, NULL);
	bool good = call_reader_feed(r, "{\"tools\":[", 10);
	char tool[64];

	for (unsigned i = 0; i <= CALL_TOOLS_MAX && good; i++) {
		(void)snprintf(tool, sizeof(tool), "%s{\"name\":\"t%u\"}", i ? "," : "", i);
		good = call_reader_feed(r, tool, strlen(tool));
	}
	assert_false(good);
	assert_string_equal(call_reader_end(r)->unclear, "it has too many tools");
	assert_int_equal(call_reader_end(r)->tools.count, CALL_TOOLS_MAX);
	call_reader_free(r);
}

static void expect_wrong(const char *rule, const char *message)
{
	_cleanup_free_ char *whole = str_printf(LIST("deny") "{%s}]}", rule);
	_cleanup_free_ char *copy = quoted(whole);
	struct error e = {0};
	struct policy_at top = {.e = &e};
	json_t *v = json_loads(copy, 0, NULL);
	struct rules r;

	assert_non_null(v);
	assert_int_not_equal(rules_make(&top, v, RULES_MAX, &r), 0);
	if (strncmp(e.message, message, strlen(message)) != 0)
		fail_msg("%s: %s", rule, e.message);
	json_decref(v);
}

static void wrong_members_are_named(void **state)
{
	expect_wrong("'action':'allow','api':'cohere'", "rules[0].api: expected \"anthropic\"");
	expect_wrong("'action':'allow','api':[]", "rules[0].api: expected at least one");
	expect_wrong("'action':'allow','models':['a',1]", "rules[0].models[1]: expected a name");
	expect_wrong("'action':'allow','maxTokens':0", "rules[0].maxTokens: expected a number");
	expect_wrong("'action':'deny','maxTokens':10", "rules[0]: maxTokens is for rules that");
	expect_wrong("'action':'deny','serverTools':false", "rules[0].serverTools: false is for");
	expect_wrong("'action':'allow','api':'mcp','models':'a'", "rules[0]: models, maxTokens");
	expect_wrong("'action':'allow','arguments':{'at':'/a','equals':1}", "rules[0]: arguments");
	expect_wrong("'action':'allow','api':'mcp','arguments':{'at':'a','equals':1}",
		"rules[0].arguments: expected \"at\"");
	expect_wrong("'action':'allow','api':'mcp','arguments':[{'at':'/a'}]",
		"rules[0].arguments[0]: expected \"equals\"");
	expect_wrong("'action':'allow','api':'mcp','arguments':[{'at':'/a','equal':1}]",
		"rules[0].arguments[0].equal: no such member");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(table_of_bodies),
		cmocka_unit_test(headers_must_say_json),
		cmocka_unit_test(large_bodies_are_unclear),
		cmocka_unit_test(tools_are_bounded),
		cmocka_unit_test(wrong_members_are_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
