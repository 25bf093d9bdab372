// Posts a row of hello.visitors. The arguments are the gateway's address and the key. The tests do not run this.
using System.Net.Http.Json;

var (url, key) = (args[0], args[1]);
var http = new HttpClient { DefaultRequestHeaders = { Authorization = new("Bearer", key) } };
var answer = await http.PostAsJsonAsync($"{url}/v1/changes/rows?table=hello.visitors", new { id = 1, name = "Ada" });
Console.WriteLine((int)answer.StatusCode);
