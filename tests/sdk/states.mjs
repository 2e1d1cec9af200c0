// Pausing, snapshots and forks through the official SDK; native agents have none of them.
import assert from 'node:assert/strict'
import { Sandbox } from 'e2b'
import { all, create, finish, test, until } from './harness.mjs'

const out = async (sb, command) => (await sb.commands.run(command)).stdout.trim()

// A process that counts in memory; returns how to read it.
async function counter(sb) {
  const { pid } = await sb.commands.run(
    'while :; do echo >>/dev/shm/n; sleep 0.2; done', { background: true, timeoutMs: 0 })
  const count = async (of = sb) => Number(await out(of, 'cat /dev/shm/n 2>/dev/null | wc -l'))
  await until('the first count', count)
  return { pid, count }
}

async function goesOn(sb, { pid, count }, since) {
  assert.ok((await sb.commands.list()).some((p) => p.pid === pid), 'the process is gone')
  const first = await count(sb)
  assert.ok(first >= since, `${first} after ${since}`)
  await until('counting on', async () => (await count(sb)) > first)
}

// fn with a sandbox that has a file and a process; ended at once, as an emulated host has room for few.
function testWith(name, options, fn) {
  test(name, async () => {
    const sb = await create(options)
    try {
      await sb.files.write('/home/user/file', 'kept')
      await fn(sb, await counter(sb))
    } finally {
      await sb.kill()
    }
  })
}

testWith('pause with memory, connect', { metadata: { a: 'b' }, envs: { COLOUR: 'red' } }, async (sb, counting) => {
  const since = await counting.count()
  assert.equal(await sb.pause(), true)
  assert.equal(await sb.pause(), false)
  assert.equal(await sb.isRunning(), false)
  assert.equal((await Sandbox.getInfo(sb.sandboxId)).state, 'paused')
  const paused = await all(Sandbox.list({ query: { state: ['paused'] } }))
  assert.ok(paused.some((s) => s.sandboxId === sb.sandboxId))
  const same = await Sandbox.connect(sb.sandboxId)
  assert.equal(same.sandboxId, sb.sandboxId)
  assert.equal(await same.isRunning(), true)
  await goesOn(same, counting, since)
  assert.equal(await out(same, 'cat file; echo; echo $COLOUR'), 'kept\nred')
  assert.deepEqual((await same.getInfo()).metadata, { a: 'b' })
  assert.equal(await out(sb, 'echo $COLOUR'), 'red') // the token is the same
  const off = Math.abs(Number(await out(same, 'date +%s')) - Date.now() / 1000)
  assert.ok(off < 60, `the clock is ${off} s off`)
})

testWith('pause without memory', {}, async (sb, counting) => {
  assert.equal(await sb.pause({ keepMemory: false }), true)
  const same = await Sandbox.connect(sb.sandboxId)
  assert.equal(await out(same, 'cat file'), 'kept')
  assert.ok(!(await same.commands.list()).some((p) => p.pid === counting.pid))
})

testWith('a snapshot is a template', {}, async (sb, counting) => {
  const since = await counting.count()
  const snapshot = await sb.createSnapshot()
  await sb.files.write('/home/user/file', 'changed')
  await goesOn(sb, counting, since)
  const listed = await all(Sandbox.listSnapshots({ sandboxId: sb.sandboxId }))
  assert.deepEqual(listed.map((s) => s.snapshotId), [snapshot.snapshotId])
  const other = await create({ template: snapshot.snapshotId })
  assert.notEqual(other.sandboxId, sb.sandboxId)
  assert.equal(await out(other, 'cat file'), 'kept')
  await goesOn(other, { ...counting, count: () => counting.count(other) }, since)
  assert.equal(await Sandbox.deleteSnapshot(snapshot.snapshotId), true)
  assert.equal(await Sandbox.deleteSnapshot(snapshot.snapshotId), false)
  await assert.rejects(Sandbox.create(snapshot.snapshotId))
  assert.equal(await out(other, 'cat file'), 'kept')
  await other.kill()
})

testWith('forks', {}, async (sb, counting) => {
  const since = await counting.count()
  const key = '/etc/ssh/ssh_host_ed25519_key'
  await sb.commands.run(`ssh-keygen -q -N '' -t ed25519 -f ${key}`, { user: 'root' })
  const before = await out(sb, `cat ${key}.pub`)
  const children = await sb.fork({ count: 3, timeoutMs: 600_000 })
  for (const child of children) assert.ok(child instanceof Sandbox, child)
  const family = [sb, ...children]
  for (const command of ['hostname', 'cat /etc/machine-id', 'cat /proc/sys/kernel/random/uuid',
    `cat ${key}.pub`]) {
    const said = await Promise.all(family.map((one) => out(one, command)))
    assert.equal(new Set(said).size, 4, `${command}: ${said}`)
  }
  assert.equal(await out(sb, `cat ${key}.pub`), before)
  for (const child of children)
    await goesOn(child, { ...counting, count: () => counting.count(child) }, since)
  await children[0].files.write('/home/user/file', 'of the first')
  assert.deepEqual(await Promise.all(family.map((one) => out(one, 'cat file'))),
    ['kept', 'of the first', 'kept', 'kept'])
  await Promise.all(children.map((child) => child.kill()))
})

testWith('paused at the timeout, woken by a request', { lifecycle: { onTimeout: 'pause', autoResume: true } }, async (sb, counting) => {
  const since = await counting.count()
  await sb.setTimeout(0)
  await until('the pause', async () => (await Sandbox.getInfo(sb.sandboxId)).state === 'paused')
  assert.equal(await sb.files.read('/home/user/file'), 'kept')
  await goesOn(sb, counting, since)
  assert.equal((await sb.getInfo()).state, 'running')
})

testWith('killing a paused one', {}, async (sb, counting) => {
  await sb.pause()
  assert.equal(await sb.kill(), true)
  await assert.rejects(Sandbox.connect(sb.sandboxId))
})

await finish('states')
