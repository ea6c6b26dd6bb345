--[[
Checks the directives of jobs when they are submitted, so that a slip of the pen costs no time in the queue: as job_submit.lua beside
slurm.conf, with JobSubmitPlugins=lua. It refuses a job whose directives make no sense, and says which line and why.

Nothing is staged here: this runs on the controller's host, and what is staged goes to the nodes' own disks. `forebay up` carries the
directives out on the nodes (crates/forebay/src/directives.rs, which knows the same words).

It is not for Slurm's burst_buffer/lua: that takes capacity= for its own, of a pool of the whole system, and Slurm 22.05 does not hand on
why it refuses a job.
]]

-- Bytes of a line with a directive. The controller stands still while it reads one, so every pattern here takes time in proportion to a
-- line's length, and no longer line is looked at. Two paths of 4096 bytes have room.
local LINE_MAX = 16384

-- Bytes of a line that a message shows.
local SHOWN_MAX = 200

local MARK = "#FB"

local POLICIES = { auto = true, close = true, ["end"] = true, manual = true }

local UNITS = { "KiB", "MiB", "GiB", "TiB", "KB", "MB", "GB", "TB", "B", "K", "M", "G", "T" }

local function shown(text)
	if #text <= SHOWN_MAX then
		return text
	end
	return text:sub(1, SHOWN_MAX) .. "..."
end

local function quoted(text)
	return "'" .. shown(text) .. "'"
end

local function size(text)
	for _, unit in ipairs(UNITS) do
		if text:lower():sub(-#unit) == unit:lower() then
			text = text:sub(1, -#unit - 1)
			break
		end
	end
	-- Not as one pattern: "%d+%.?%d*" tries each way to divide the digits.
	return text:match("^%d+$") ~= nil or text:match("^%d+%.%d*$") ~= nil
end

local function capacity(text)
	if not size(text) then
		return quoted(text) .. " is not a size; write for example 100GiB"
	end
end

local function policy(text)
	if not POLICIES[text] then
		return quoted(text) .. " is not a policy; the policies are auto, close, end and manual"
	end
end

local ASSIGNMENTS = { capacity = capacity, policy = policy }

local function assignment(word)
	local name, text = word:match("^([^=]*)=(.+)$")
	if not name then
		name = word:match("^([^=]*)")
	end
	local check = ASSIGNMENTS[name]
	if not check then
		return quoted(name) .. " is not known; the directives are capacity=, policy=, stage_in and stage_out"
	end
	if not text then
		return quoted(word) .. " has no value; write " .. name .. "=VALUE"
	end
	return check(text)
end

local function pair(words, may_scatter)
	local paths = {}
	for index = 2, #words do
		local name, path = words[index]:match("^(%l+)=(.*)$")
		if name == "source" or name == "destination" then
			if path:sub(1, 1) ~= "/" then
				return quoted(path) .. " is not an absolute path (/...)"
			end
			paths[name] = path
		elseif not (may_scatter and words[index] == "scatter") then
			return quoted(words[index]) .. " is not understood; paths have no blanks"
		end
	end
	if not (paths.source and paths.destination) then
		return "source=PATH and destination=PATH are needed"
	end
end

-- What is wrong with the words of one directive; nil where nothing is.
local function problem_of(words)
	if words[1] == "stage_in" or words[1] == "stage_out" then
		return pair(words, words[1] == "stage_in")
	end
	for _, word in ipairs(words) do
		local problem = assignment(word)
		if problem then
			return problem
		end
	end
end

-- What is wrong with a line; nil where nothing is.
local function problem_in_line(line)
	if not line:match("^" .. MARK .. "%s") then
		return nil
	end
	if #line > LINE_MAX then
		return "a directive has at most " .. LINE_MAX .. " bytes; divide it"
	end
	local words = {}
	for word in line:sub(#MARK + 1):gmatch("%S+") do
		words[#words + 1] = word
	end
	return problem_of(words)
end

-- What is wrong with the text of a script; nil where nothing is.
local function problem_in(text)
	local number = 0
	for line in (text .. "\n"):gmatch("([^\n]*)\n") do
		number = number + 1
		local problem = problem_in_line(line)
		if problem then
			return "forebay: line " .. number .. ": " .. shown(line) .. ": " .. problem
		end
	end
end

function slurm_job_submit(job)
	local problem = problem_in(job.script or "")
	if problem then
		slurm.log_user("%s", problem)
		return slurm.ERROR
	end
	return slurm.SUCCESS
end

function slurm_job_modify()
	return slurm.SUCCESS
end
