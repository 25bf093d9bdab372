// Posts a row of hello.visitors: java Send.java http://127.0.0.1:8480 "$(cat .mirrorgate/admin.key)"
import java.net.URI;
import java.net.http.*;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodyHandlers;

public class Send {
    public static void main(String[] arguments) throws Exception {
        String url = arguments[0], key = arguments[1];
        var http = HttpClient.newHttpClient();
        var answer = http.send(HttpRequest.newBuilder(URI.create(url + "/v1/changes/rows?table=hello.visitors"))
            .header("Authorization", "Bearer " + key).header("Content-Type", "application/json")
            .POST(BodyPublishers.ofString("{\"id\": 1, \"name\": \"Ada\"}")).build(), BodyHandlers.ofString());
        System.out.println(answer.statusCode());
    }
}
