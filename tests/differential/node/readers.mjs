// Readers of JavaScript: V8's JSON, Express, qs and the MCP SDK. See ../beside.py for the protocol.
import http from 'node:http';
import path from 'node:path';
import querystring from 'node:querystring';
import readline from 'node:readline';

import express from 'express';
import express4 from 'express4';
import methodOverride from 'method-override';
import multer from 'multer';
import qs from 'qs';

import {McpServer} from '@modelcontextprotocol/sdk/server/mcp.js';
import {Server} from '@modelcontextprotocol/sdk/server/index.js';
import {StreamableHTTPServerTransport} from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import {CallToolRequestSchema} from '@modelcontextprotocol/sdk/types.js';
import {z} from 'zod';

const [directory] = process.argv.slice(2);

async function serve(handler) {
	const server = http.createServer(handler);
	await new Promise(done => server.listen(0, '127.0.0.1', done));
	return server.address().port;
}

// --- JSON ---

function callsOf(value) {
	const calls = [];
	for (const m of Array.isArray(value) ? value : [value])
		if (m?.method === 'tools/call' && typeof m.params?.name === 'string')
			calls.push({tool: m.params.name, arguments: m.params.arguments});
	return calls;
}

// null: it is no JSON.
function parsed(data, use) {
	let value;
	try {
		value = JSON.parse(data.toString());
	} catch {
		return null;
	}
	return use(value);
}

// What express.json() makes of a body, or null.
function bodies(framework) {
	const app = framework();
	app.use(framework.json({limit: '5mb'}));
	app.post('/mcp', (req, res) => res.json(req.body === undefined ? null : callsOf(req.body)));
	app.use((req, res) => res.json(req.body ?? null));
	app.use((error, req, res, next) => res.json(null));
	return app;
}

// --- the MCP SDK ---

let ran = {};

function note(name, given, extra) {
	const id = extra.requestInfo?.headers?.['x-case'] ?? '';
	(ran[id] ??= []).push({tool: name, arguments: given});
	return {content: []};
}

// Tools whose arguments the SDK checks, or that take them as they are.
function mcpServer(typed) {
	if (!typed) {
		const server = new Server({name: 'beside', version: '1'}, {capabilities: {tools: {}}});
		server.setRequestHandler(CallToolRequestSchema,
			(request, extra) => note(request.params.name, request.params.arguments, extra));
		return server;
	}
	const server = new McpServer({name: 'beside', version: '1'});
	const inputSchema = {
		path: z.string().optional(), mode: z.string().optional(), count: z.number().optional(),
		opts: z.object({task: z.string().optional()}).optional(),
	};
	for (const name of ['read_x', 'write_note', 'drop_db', 'read_raw', 'write_raw', 'drop_raw'])
		server.registerTool(name, {inputSchema}, (given, extra) => note(name, given, extra));
	return server;
}

// The SDK reads the body itself, or gets what express.json() read.
function mcp(typed, reads) {
	const app = express();
	if (!reads)
		app.use(express.json());
	app.post('/mcp', async (req, res) => {
		const transport = new StreamableHTTPServerTransport({sessionIdGenerator: undefined, enableJsonResponse: true});
		const server = mcpServer(typed);
		await server.connect(transport);
		res.on('close', () => server.close());
		await transport.handleRequest(req, res, reads ? undefined : req.body);
	});
	app.use((error, req, res, next) => res.status(400).end());
	return app;
}

// --- paths ---

// The routes of ../routes.py, and its files below /files/.
function paths(framework, strict) {
	const app = framework();
	const settings = {strict, caseSensitive: strict};
	const router = framework.Router(settings);
	const tell = label => (req, res) => res.send(label);
	router.post('/orders', tell('orders'));
	router.get('/orders/:id', tell('order'));
	router.use('/admin', tell('admin'));
	router.use('/public', tell('public'));
	router.get('/users/:name', tell('user'));
	router.post('/api/v1/items/:id/approve', tell('approve'));
	router.get('/repos/:owner/:name/secret', tell('repo'));
	router.use('/files', framework.static(path.join(directory, 'files')));
	app.use(router);
	app.use((req, res) => res.status(404).send('no route'));
	app.use((error, req, res, next) => res.status(400).send('no route'));
	return app;
}

// --- queries and forms ---

// Each reading of a query: names with their values, as the parser has them.
function queries(data) {
	const text = data.toString('latin1');
	const readings = [qs.parse(text), querystring.parse(text), Object.fromEntries(new URLSearchParams(text))];
	return readings.map(r => ({...r}));
}

// What express.urlencoded() and multer make of a body, and the method after method-override.
function forms(extended) {
	const app = express();
	app.set('query parser', extended ? 'extended' : 'simple');
	app.use(express.urlencoded({extended}), multer().any());
	app.use(methodOverride(req => req.body?._method));
	app.use(methodOverride('_method'));
	app.use(methodOverride());
	app.use((req, res) => res.json({method: req.method, names: Object.keys(req.body ?? {}), query: {...req.query}}));
	app.use((error, req, res, next) => res.json(null));
	return app;
}

// --- plain paths ---

// A path of another machine (\\\\server\\share) has no place here.
function normalOfWindows(text) {
	const plain = path.win32.normalize(text).replaceAll('\\', '/');
	return plain.startsWith('//') ? [] : [plain];
}

// --- the protocol ---

const readers = {
	v8: data => parsed(data, callsOf),
	'model-v8': data => parsed(data, value => value),
	queries,
	normal: data => [path.posix.normalize(data.toString()), ...normalOfWindows(data.toString())],
};

const ports = {
	mcp: await serve(mcp(true, false)),
	'mcp-raw': await serve(mcp(false, true)),
	express: await serve(bodies(express)),
	express4: await serve(bodies(express4)),
	'paths-5': await serve(paths(express, false)),
	'paths-4': await serve(paths(express4, false)),
	'paths-strict': await serve(paths(express, true)),
	'forms-extended': await serve(forms(true)),
	'forms-simple': await serve(forms(false)),
};

function answer({kind, items}) {
	if (kind === 'ports')
		return ports;
	if (kind === 'ran') {
		const taken = ran;
		ran = {};
		return taken;
	}
	return items.map(item => readers[kind](Buffer.from(item, 'hex')));
}

for await (const line of readline.createInterface({input: process.stdin}))
	process.stdout.write(JSON.stringify(answer(JSON.parse(line))) + '\n');
process.exit(0);
